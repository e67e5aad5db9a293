"""Stores of artifacts for tests, and services that share one."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from scenewright.service.core.settings import ServiceSettings

KINDS = ("folder", "memory", "s3")


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store of ``kind``."""
    name = f"b{secrets.token_hex(6)}"
    if kind == "folder":
        yield f"file://{folder / name}"
    elif kind == "memory":
        from fsspec.implementations.memory import MemoryFileSystem

        # One for the whole process: each test has a folder of its own in it.
        yield f"memory://{name}"
        with_root = MemoryFileSystem()
        if with_root.exists(name):
            with_root.rm(name, recursive=True)
    else:
        with bucket(name) as url:
            yield url


@contextmanager
def bucket(name: str) -> Iterator[str]:
    """A bucket of a server that speaks S3 on a loopback port, and the variables that reach it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        variables = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with mock.patch.dict("os.environ", variables):
            boto3.client("s3").create_bucket(Bucket=name)
            yield f"s3://{name}/scenes"
    finally:
        server.stop()


def machine(
    folder: Path, name: str, database: str | None, url: str, **more: Any
) -> ServiceSettings:
    """Settings of a server with a disk of its own."""
    home = folder / name
    home.mkdir(exist_ok=True)
    return ServiceSettings(
        data=home,
        database=database or f"sqlite:///{folder / 'rows.sqlite'}",
        artifacts=url,
        drain_seconds=10,
        **more,
    )


def lost(settings: ServiceSettings) -> None:
    """The server's disk is gone."""
    shutil.rmtree(settings.data)


class Held(dict[str, bytes]):
    """Objects in memory that fail, are counted, and can be looked at."""

    where = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []
        self.failing: BaseException | None = None
        self.most: int | None = None
        """After how many more objects the power is cut."""

    def put(self, key: str, data: bytes) -> None:
        if self.failing is not None:
            raise self.failing
        if self.most is not None:
            if not self.most:
                raise PowerCut
            self.most -= 1
        self[key] = data
        self.puts.append(key)

    def get(self, key: str, default: Any = None) -> Any:
        if self.failing is not None:
            raise self.failing
        return super().get(key)

    def list(self, folder: str) -> Mapping[str, str]:
        if self.failing is not None:
            raise self.failing
        return {
            key: str(hash(data))
            for key, data in sorted(self.items())
            if key.startswith(f"{folder}/")
        }

    def delete(self, keys: Any) -> None:
        for key in list(keys):
            self.pop(key, None)


class PowerCut(BaseException):
    """The machine is gone."""
