"""A mask is kept: what lies outside is the picture that the run began with, pixel by pixel.

It holds for every strategy, whatever draws, whichever way the run was asked for, and for any mask;
the share of the picture that changed is in the log.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageFilter

from scenewright.config.profiles import BUILT_IN, BackendSpec
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageStore
from scenewright.core.layout import keep_outside
from scenewright.core.ports.backend import ImageBackend
from scenewright.graphs.errors import RunError
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Edit, Generated
from scenewright.graphs.strategies.registry import DIRECTOR, strategies
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.runs.api import refine, stream_refine
from scenewright.runs.folder import EVENTS, IMAGES
from scenewright.runs.model_factory.profiles import backend_of
from scenewright.service.app import create_app
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.settings import ServiceSettings
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.remote import remote_backend
from tests.doubles import Killed, ScriptedBackend, ScriptedComposer, ScriptedJudge, kill_at
from tests.graphs.directing import played
from tests.service.serving import serving
from tests.tools.backends.conftest import tiny_model

__all__ = ["tiny_model"]
SCENE = "red ball on table; dog left of table"
SIDE = 16
STRATEGIES = sorted(set(strategies()) - {DIRECTOR})
# A smaller example of a failure takes hundreds of runs to find.
UNSHRUNK = settings(
    derandomize=True, deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))


def noise(seed: int, size: tuple[int, int]) -> Image.Image:
    shape = (size[1], size[0], 3)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def spots(seed: int, size: tuple[int, int]) -> Image.Image:
    """A mask of single pixels, which fits no grid of latents; the first one is white."""
    white = np.random.default_rng(seed).random((size[1], size[0])) < 0.3
    white[0, 0] = True
    return Image.fromarray(white.astype(np.uint8) * 255)


@st.composite
def masks(draw: st.DrawFn, side: int = SIDE) -> Image.Image:
    """Single pixels, all, or a rectangle, which may fade out at its edges."""
    kind = draw(st.sampled_from(["spots", "all", "hard", "soft"]))
    if kind == "spots":
        return spots(draw(st.integers(0, 99)), (side, side))
    mask = Image.new("L", (side, side), 255 * (kind == "all"))
    left, top = draw(st.integers(0, side - 1)), draw(st.integers(0, side - 1))
    right, bottom = draw(st.integers(left + 1, side)), draw(st.integers(top + 1, side))
    mask.paste(255, (left, top, right, bottom))
    if kind == "soft":
        mask = ImageChops.lighter(mask, mask.filter(ImageFilter.GaussianBlur(side / 8)))
    return mask


def changed(one: Image.Image, other: Image.Image) -> np.ndarray:
    return (np.asarray(one.convert("RGB")) != np.asarray(other.convert("RGB"))).any(-1)


@given(size=SIZES, seed=st.integers(0, 99))
def test_only_the_white_of_a_mask_changes(size: tuple[int, int], seed: int) -> None:
    drawn, kept, mask = noise(seed, size), noise(seed + 1, size), spots(seed, size)
    found, share = keep_outside(drawn, kept, mask)
    white = np.asarray(mask) > 0
    assert not changed(found, kept)[~white].any()
    assert not changed(found, drawn)[white].any()
    assert share == pytest.approx(changed(found, kept).mean())


@given(size=SIZES, drawn=SIZES)
def test_a_picture_of_another_size_is_kept_scaled(
    size: tuple[int, int], drawn: tuple[int, int]
) -> None:
    kept = noise(1, size)
    found, share = keep_outside(noise(0, drawn), kept, Image.new("L", size))
    assert found.size == drawn
    assert not changed(found, kept.resize(drawn, Image.Resampling.LANCZOS)).any()
    assert share == 0.0


@dataclass
class Case:
    """A masked run to be made."""

    folder: Path
    start: Image.Image
    mask: Image.Image
    models: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        """Where it is, of a run that is not the service's."""
        return self.folder / "run"

    @property
    def asked(self) -> dict[str, Any]:
        """Arguments of a run in this process."""
        own = {"rounds": 4, "patience": 4, "start": self.start, "mask": self.mask, "page": False}
        return {**own, "out": self.run, **self.models, **self.options}


def scripted(**changes: Any) -> dict[str, Any]:
    """Models whose backend draws all of the picture anew, whatever it was asked to keep."""
    return {
        "backend": ScriptedBackend(lambda asked: 120, masks=True, **changes),
        "judges": [ScriptedJudge("a")],
        "report_judges": [],
        "composer": ScriptedComposer(),
    }


def start_of(side: int = SIDE) -> Image.Image:
    """Noise in which the scripted judges miss something."""
    start = noise(7, (side, side))
    start.putpixel((0, 0), (60, 0, 0))
    return start


def check_kept(run: Path, start: Image.Image, mask: Image.Image, cell: int = 1) -> None:
    """Compare every picture of a run's log with the one that the run began with.

    Something has changed where the mask has room for a whole ``cell`` of latents, in pixels: cells
    that are black on most of them stay.
    """
    images = ImageStore(run / IMAGES)
    drawn = [
        event
        for event in read_events(run / EVENTS)
        if isinstance(event, Generated) and event.purpose != "reference"
    ]
    assert not all(event.given for event in drawn)
    for event in drawn:
        picture = images.get(event.image)
        kept = start.resize(picture.size, Image.Resampling.LANCZOS)
        black = np.asarray(mask.resize(picture.size, Image.Resampling.NEAREST)) == 0
        differs = changed(picture, kept if picture.size != start.size else start)
        assert not differs[black].any(), (event.key, event.purpose)
        assert event.changed == pytest.approx(differs.mean(), abs=1e-6)
    white = mask.point(lambda level: 255 * (level >= 128))
    if white.filter(ImageFilter.MinFilter(2 * cell - 1)).getbbox() is not None:
        assert any(event.changed for event in drawn)


@pytest.mark.parametrize("references", [0, 2], ids=["alone", "with references"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@given(mask=masks())
@settings(UNSHRUNK, max_examples=3)
async def test_no_strategy_changes_what_lies_outside(
    strategy: str, references: int, mask: Image.Image
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = scripted(references=references)
        case = Case(Path(folder), start_of(), mask, models, {"strategy": strategy})
        result = await refine(SCENE, **case.asked)
        check_kept(case.run, case.start, mask)
        black, images = np.asarray(mask) == 0, ImageStore(case.run / IMAGES)
        for found in result.rounds:
            assert not changed(images.get(found.image), case.start)[black].any()


# Doors: each makes the run of a case and returns its folder.


async def by_call(case: Case) -> Path:
    await refine(SCENE, **case.asked)
    return case.run


async def by_stream(case: Case) -> Path:
    async for _ in stream_refine(SCENE, **case.asked):
        pass
    return case.run


async def after_a_kill(case: Case) -> Path:
    """Ended as a process is at some of its events, and gone on with."""
    for number in (6, 12):
        with pytest.raises(Killed):
            await refine(SCENE, **case.asked, on_event=kill_at(number))
    return await by_call(case)


async def after_an_edit(case: Case) -> Path:
    """What a person adds to a finished run is drawn within its mask too."""
    await refine(SCENE, **case.asked)
    edit = Edit(key="one", scene=load_scene(f"{SCENE}; hat on dog"), rounds=2)
    await refine(SCENE, **case.asked, edit=edit)
    return case.run


@asynccontextmanager
async def service(case: Case) -> AsyncIterator[tuple[Any, httpx2.AsyncClient]]:
    """The service with the models of ``case``, and a client of it."""
    settings = ServiceSettings(data=case.folder / "data", drain_seconds=10)
    app = create_app(settings, models=lambda request: case.models)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        yield app.state.service, client


async def ended(client: httpx2.AsyncClient, run: str) -> None:
    """Follow the run's events to their end."""
    async with client.stream("GET", f"/v1/refinements/{run}/events") as reply:
        async for _ in reply.aiter_lines():
            pass


async def begun(served: Any, client: httpx2.AsyncClient, case: Case) -> str:
    sent = {
        name: served.uploads.keep(LOCAL.tenant, picture)
        for name, picture in (("start", case.start), ("mask", case.mask))
    }
    reply = await client.post("/v1/refinements", json={"triplets": SCENE, "rounds": 3, **sent})
    assert reply.status_code == 202, reply.text
    run = str(reply.json()["id"])
    await ended(client, run)
    return run


async def by_http(case: Case) -> Path:
    async with service(case) as (served, client):
        return Path(served.folder(await begun(served, client, case)))


async def by_http_edited(case: Case) -> Path:
    async with service(case) as (served, client):
        run = await begun(served, client, case)
        edit = {"add": "hat on dog", "rounds": 2}
        reply = await client.post(f"/v1/refinements/{run}/edits", json=edit)
        assert reply.status_code == 202, reply.text
        await ended(client, run)
        return Path(served.folder(run))


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


async def by_edits(case: Case) -> Path:
    """The door of OpenAI's clients, whose masks are transparent where a picture may change."""
    transparent = case.start.convert("RGBA")
    transparent.putalpha(ImageChops.invert(case.mask))
    files = {"image": ("image.png", png(case.start)), "mask": ("mask.png", png(transparent))}
    async with service(case) as (served, client):
        form = {"prompt": "A red ball lies on a table.", "scenewright[rounds]": "3"}
        reply = await client.post("/v1/images/edits", data=form, files=files)
        assert reply.status_code == 200, reply.text
        (run,) = reply.json()["scenewright"]["runs"]
        return Path(served.folder(run["id"]))


DOORS: dict[str, Callable[[Case], Awaitable[Path]]] = {
    "refine": by_call,
    "stream_refine": by_stream,
    "refine after a kill": after_a_kill,
    "refine with an edit": after_an_edit,
    "/v1/refinements": by_http,
    "/v1/refinements/ID/edits": by_http_edited,
    "/v1/images/edits": by_edits,
}
"""Name of a door that takes masks → how a run is asked for there."""


@pytest.mark.parametrize("door", DOORS)
@given(mask=masks())
@settings(UNSHRUNK, max_examples=2)
async def test_no_door_changes_what_lies_outside(door: str, mask: Image.Image) -> None:
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), start_of(), mask, scripted())
        check_kept(await DOORS[door](case), case.start, mask)


async def test_a_mask_that_lets_nothing_change_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, start_of(), Image.new("L", (SIDE, SIDE)), scripted())
    with pytest.raises(RunError, match="lets nothing change"):
        await by_call(case)
    with pytest.raises(AssertionError, match="lets nothing change"):
        await by_http(case)
    with pytest.raises(AssertionError, match="nowhere transparent"):
        await by_edits(case)


async def test_a_director_takes_no_mask(tmp_path: Path) -> None:
    case = Case(tmp_path, start_of(), spots(3, (SIDE, SIDE)), scripted(), {"strategy": DIRECTOR})
    with pytest.raises(RunError, match="leave start out"):
        await refine(SCENE, **case.asked, chat=played(("accept", {})))


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings()) as made:
        yield made


@asynccontextmanager
async def drawing(
    name: str, lab: ThreadedMockProviders, tiny_model: Path
) -> AsyncIterator[ImageBackend]:
    """A backend of real code: weights on this machine, or a provider's API at the mock server."""
    if name == "miniature":
        # It is kept for whoever asks for it next.
        yield backend_of(BackendSpec(model="miniature"))
        return
    if name in ("openai", "gemini"):
        base = lab.openai_url if name == "openai" else lab.url
        own = {"api_key": "key of the masks", "base_url": base, "name": "lab"}
        found: ImageBackend = remote_backend(name, "instant-image", Caller("lab"), **own)
    else:
        found = DiffusersBackend(str(tiny_model))
    try:
        yield found
    finally:
        await found.aclose()


async def check_backend(
    name: str, lab: ThreadedMockProviders, tiny_model: Path, strategy: str, mask: Image.Image
) -> None:
    models = {**scripted(), "profile": BUILT_IN["miniature"].model_copy(update={"steps": 2})}
    with tempfile.TemporaryDirectory() as folder:
        async with drawing(name, lab, tiny_model) as backend:
            options = {"strategy": strategy, "size": (64, 64), "rounds": 3}
            case = Case(Path(folder), start_of(64), mask, {**models, "backend": backend}, options)
            await refine(SCENE, **case.asked)
            check_kept(case.run, case.start, mask, cell=8)


BACKENDS = ("openai", "gemini", "diffusers", "miniature")


@pytest.mark.parametrize("name", BACKENDS)
@given(mask=masks(64))
@settings(UNSHRUNK, max_examples=1)
async def test_no_backend_changes_what_lies_outside(
    name: str, lab: ThreadedMockProviders, tiny_model: Path, mask: Image.Image
) -> None:
    await check_backend(name, lab, tiny_model, "feedback", mask)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", BACKENDS)
@given(mask=masks(64))
@settings(UNSHRUNK, max_examples=2)
async def test_no_strategy_of_a_backend_changes_what_lies_outside(
    name: str, strategy: str, lab: ThreadedMockProviders, tiny_model: Path, mask: Image.Image
) -> None:
    await check_backend(name, lab, tiny_model, strategy, mask)
