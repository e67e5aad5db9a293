"""Runs that are taken away for good, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from sqlalchemy import text

from scenewright.service.core.errors import Conflict, NotFound, Unprocessable
from scenewright.service.core.identity import LOCAL, Identity
from scenewright.service.core.service import remove
from scenewright.service.core.settings import ServiceSettings
from tests.service.databases import KINDS, kept
from tests.service.working import Studio, begin, still, until


@pytest.fixture(params=KINDS)
async def either(request: Any, tmp_path: Path) -> AsyncIterator[ServiceSettings]:
    """Settings of a service on each kind of database."""
    async with kept(request.param, tmp_path) as settings:
        yield settings


async def test_a_run_goes_with_its_folder_and_checkpoints_but_its_cost_stays(
    either: ServiceSettings,
) -> None:
    studio = Studio()
    studio.backend.gate.set()
    studio.backend.usd = 0.25
    async with studio.service(either) as service:
        run = await still(service, await begin(service))
        assert service.folder(run.id).is_dir()
        await remove(service, LOCAL, run.id)
        assert not service.folder(run.id).exists()
        with pytest.raises(NotFound):
            await service.run(LOCAL, run.id)
        async with service.engine.connect() as connection:
            spent = await connection.execute(text("SELECT sum(usd) FROM spending"))
            assert spent.scalar_one() > 0
            if either.shared:
                left = await connection.execute(text("SELECT count(*) FROM checkpoints"))
                assert left.scalar_one() == 0


async def test_a_run_at_work_stays(either: ServiceSettings) -> None:
    studio = Studio()
    async with studio.service(either) as service:
        run = await begin(service)
        await until(lambda: studio.backend.waiting == 1)
        with pytest.raises(Conflict, match="cancel it first"):
            await remove(service, LOCAL, run.id)
        studio.backend.gate.set()
        assert (await still(service, run)).status == "finished"


async def test_another_tenants_run_stays(either: ServiceSettings) -> None:
    studio = Studio()
    studio.backend.gate.set()
    async with studio.service(either) as service:
        run = await still(service, await begin(service))
        with pytest.raises(NotFound):
            await remove(service, Identity("somebody"), run.id)
        assert service.folder(run.id).is_dir()


async def test_a_sent_picture_goes_with_the_last_run_that_begins_with_it(
    either: ServiceSettings,
) -> None:
    studio = Studio()
    studio.backend.gate.set()
    async with studio.service(either) as service:
        digest = service.uploads.keep(LOCAL.tenant, Image.new("RGB", (16, 16), "red"))
        runs = [await still(service, await begin(service, seed, start=digest)) for seed in range(2)]
        await remove(service, LOCAL, runs[0].id)
        assert service.uploads.find(LOCAL.tenant, digest).is_file()
        await remove(service, LOCAL, runs[1].id)
        with pytest.raises(Unprocessable):
            service.uploads.find(LOCAL.tenant, digest)
