"""Sets through the ``datasets`` library: folders of its layout, and a hub on the loopback."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from scenewright.evals.datasets import huggingface
from scenewright.evals.datasets.base import DatasetError
from tests.evals.datasets.published import check_set

datasets = pytest.importorskip("datasets")
hub = pytest.importorskip("huggingface_hub")

CAPTION = {"prompt": "caption"}
COMMIT = "a" * 40
LINES = b'{"caption": "a dog"}\n{"caption": "a cat"}\n'


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def with_pictures(folder: Path) -> Path:
    """Three pictures with captions, as the hub's parquet files hold them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(data, format="PNG")
    table = pa.table(
        {
            "image": pa.array([{"bytes": data.getvalue(), "path": "x.png"}] * 3),
            "caption": ["a dog", "a cat", "a ball"],
            "key": ["a/1", "a/2", "a/3"],
        }
    )
    features = {
        "image": {"_type": "Image"},
        "caption": {"dtype": "string", "_type": "Value"},
        "key": {"dtype": "string", "_type": "Value"},
    }
    said = json.dumps({"info": {"features": features}})
    pq.write_table(
        table.replace_schema_metadata({"huggingface": said}), folder / "train-00000.parquet"
    )
    return folder


def test_a_folder_is_read_as_a_set(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    file = folder / "train.jsonl"
    file.write_bytes(LINES)
    items = check_set(
        lambda: huggingface.load(folder, columns=CAPTION, parse="rules"),
        lambda: file.write_bytes(LINES + LINES),
    )
    assert [(item.id, item.prompt) for item in items] == [
        ("row-000001", "a dog"),
        ("row-000002", "a cat"),
    ]
    assert items[0].scene is not None


def test_pictures_are_written_as_they_are_and_once(tmp_path: Path) -> None:
    folder, out = with_pictures(tmp_path / "set"), tmp_path / "pictures"
    columns = {**CAPTION, "id": "key"}
    items = list(huggingface.load(folder, columns=columns, pictures=str(out)))
    assert [item.image for item in items] == [str(out / f"a%2F{n}.png") for n in (1, 2, 3)]
    with Image.open(str(items[0].image)) as picture:
        assert picture.size == (8, 6)
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    again = list(huggingface.load(folder, columns=columns, pictures=str(out)))
    assert again == items
    assert {file: file.stat().st_mtime_ns for file in out.iterdir()} == before
    # Without a folder there is no file, and so no photo.
    assert [item.image for item in huggingface.load(folder, columns=CAPTION)] == [None] * 3


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    folder = with_pictures(tmp_path / "set")
    with pytest.raises(DatasetError, match=r"Bad split: test. Available splits: \['train'\]"):
        list(huggingface.load(folder, columns=CAPTION, split="test"))
    with pytest.raises(DatasetError, match="no column 'text': it has image, caption, key"):
        list(huggingface.load(folder, columns={"prompt": "text"}))
    with pytest.raises(DatasetError, match="name one of them, path or the option repo"):
        huggingface.load(None)
    with pytest.raises(DatasetError, match="name one of them, path or the option repo"):
        huggingface.load(folder, repo="o/n")
    with pytest.raises(DatasetError, match="is not a folder"):
        huggingface.load(folder / "gone")


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as streaming one JSON lines file takes."""

    asked: list[str]

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _send(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("X-Repo-Commit", COMMIT),
            ("ETag", f'"{COMMIT}"'),
            *(
                [("X-Error-Code", "EntryNotFound")]
                if status == 404 and "/o/n/" in self.path
                else []
            ),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        file = {"type": "file", "path": "train.jsonl", "size": len(LINES), "oid": "b" * 40}
        if path == f"/api/datasets/o/n/tree/{COMMIT}":
            self._send(json.dumps([file]).encode())
        elif path.startswith("/api/datasets/o/n") and "/tree/" not in path:
            about = {"id": "o/n", "sha": COMMIT, "siblings": [{"rfilename": "train.jsonl"}]}
            self._send(json.dumps(about).encode())
        elif path == f"/datasets/o/n/resolve/{COMMIT}/train.jsonl":
            self._send(LINES, kind="text/plain")
        else:
            self._send(b'{"error": "Repository not found"}', 404)

    do_HEAD = do_GET


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub that holds the set ``o/n``; the paths that it is asked for."""
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Hub,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _point_at(f"http://127.0.0.1:{server.server_port}", monkeypatch)
    yield asked
    server.shutdown()
    server.server_close()


def _point_at(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", address)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)


def test_a_set_on_the_hub_is_streamed_at_one_commit(loopback: list[str]) -> None:
    found = huggingface.load(None, repo="o/n", columns=CAPTION)
    assert [item.prompt for item in found] == ["a dog", "a cat"]
    assert found.fingerprint != huggingface.load(None, repo="o/n").fingerprint
    read = [path for path in loopback if path.endswith(".jsonl")]
    assert read
    assert all(f"/resolve/{COMMIT}/" in path for path in read)


def test_a_set_that_the_hub_does_not_have_is_told(loopback: list[str]) -> None:
    with pytest.raises(DatasetError, match=r"x/y cannot be read: .*check repo, config, split"):
        list(huggingface.load(None, repo="x/y"))
    assert len(loopback) == 1


def test_without_the_net_it_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Port 9 is that of the discard service, which nobody runs.
    _point_at("http://127.0.0.1:9", monkeypatch)
    for revision in (None, "main"):
        found = huggingface.load(None, repo="o/n", revision=revision)
        with pytest.raises(DatasetError, match=r"hub cannot be reached for o/n .* as the path"):
            list(found)
        with pytest.raises(DatasetError, match="cannot be reached"):
            _ = found.fingerprint
