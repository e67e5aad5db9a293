"""A working copy: what is brought back, in which order, and what a cut-off leaves."""

from __future__ import annotations

import errno
import hashlib
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.facts import Answer
from scenewright.graphs.errors import RunError
from scenewright.providers.answer_store import AnswerStore
from scenewright.runs.folder import (
    ANSWERS,
    CHECKPOINTS,
    EVENTS,
    IMAGES,
    MANIFEST,
    RESULT,
    RunBusy,
    RunFolder,
)
from scenewright.service.core.artifacts.store_layout import claims_among, newest
from scenewright.service.core.artifacts.working_copy import WorkingCopy
from tests.service.core.artifacts.places import Held, PowerCut

RUN = "run_1"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """One thread, so that files go in their order."""
    with ThreadPoolExecutor(1) as found:
        yield found


class Machine:
    """A server that drives the run: each event tells of a picture of its own."""

    def __init__(self, objects: Held, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.copy = WorkingCopy(objects, RUN, folder, pool)
        self.folder = folder

    def take(self) -> None:
        self.copy.take()
        if not (self.folder / MANIFEST).exists():
            (self.folder / MANIFEST).write_text(json.dumps({"nonce": self.folder.name}))

    @property
    def events(self) -> list[str]:
        """Pictures that the log tells of."""
        log = self.folder / EVENTS
        return (
            [json.loads(line)["image"] for line in log.read_bytes().splitlines()]
            if (log.exists())
            else []
        )

    def step(self, name: str) -> str:
        """Draw a picture and tell it."""
        data = name.encode()
        digest = hashlib.sha256(data).hexdigest()
        images = self.folder / IMAGES
        (images / "requests").mkdir(parents=True, exist_ok=True)
        (images / f"{digest}.png").write_bytes(data)
        note = hashlib.sha256(b"asked" + data).hexdigest()
        (images / "requests" / f"{note}.json").write_text(json.dumps({"image": digest}))
        answers = AnswerStore(self.folder / ANSWERS)
        answers.put("judge", digest, [(digest, answer())], name)
        answers.close()
        with open(self.folder / EVENTS, "ab") as file:
            file.write(json.dumps({"image": digest}).encode() + b"\n")
        return digest


def answer() -> Answer:
    """Some answer."""
    return Answer(fact_id="f", judge_id="judge", state="yes", probability=1.0, method="logprob")


def sound(objects: Held) -> list[str]:
    """Pictures that the store's log tells of; all that they rest on must be there."""
    claims = claims_among(objects)
    logs = [objects[claims[claim]] for claim in newest(claims)]
    told = [json.loads(line)["image"] for line in max(logs, key=len, default=b"").splitlines()]
    if told:
        assert f"runs/{RUN}/{MANIFEST}" in objects
    for digest in told:
        assert hashlib.sha256(objects[f"runs/{RUN}/images/{digest}.png"]).hexdigest() == digest
    return told


def machine(tmp_path: Path, name: str, objects: Held, pool: ThreadPoolExecutor) -> Machine:
    """A server that has taken the run over."""
    found = Machine(objects, tmp_path / name, pool)
    found.take()
    return found


def test_another_machine_has_all_that_was_brought_back(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    told = [first.step("one"), first.step("two")]
    (first.folder / RESULT).write_text("{}")
    assert first.copy.behind
    assert first.copy.push()
    assert not first.copy.behind
    second = machine(tmp_path, "b", objects, pool)
    assert second.events == told
    assert (second.folder / MANIFEST).read_bytes() == (first.folder / MANIFEST).read_bytes()
    images = {path.name for path in (second.folder / IMAGES).glob("*.png")}
    assert images == {f"{digest}.png" for digest in told}
    assert len(list((second.folder / IMAGES / "requests").iterdir())) == 2
    answers = AnswerStore(second.folder / ANSWERS)
    assert len(answers) == 2
    found, origin = answers.get("judge", told[0], [told[0]])[told[0]]
    answers.close()
    assert (found.state, origin) == ("yes", "one")


def test_only_what_is_new_goes(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    first.step("one")
    first.copy.push()
    objects.puts.clear()
    assert not first.copy.push()
    assert not objects.puts
    digest = first.step("two")
    first.copy.push()
    kinds = [key.split("/")[2] for key in objects.puts]
    assert kinds == ["images", "requests", "answers", "events"]
    assert objects.puts[0].endswith(f"{digest}.png")


def test_a_result_that_is_none_any_more_goes(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    first.step("one")
    (first.folder / RESULT).write_text("{}")
    first.copy.push()
    assert f"runs/{RUN}/{RESULT}" in objects
    (first.folder / RESULT).unlink()
    first.step("two")
    first.copy.push()
    assert f"runs/{RUN}/{RESULT}" not in objects


def test_a_torn_last_line_stays_here(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    told = [first.step("one")]
    with open(first.folder / EVENTS, "ab") as file:
        file.write(b'{"image": "ab')
    first.copy.push()
    assert sound(objects) == told


def test_a_server_that_was_replaced_writes_beside(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    one = first.step("one")
    first.copy.push()
    second = machine(tmp_path, "b", objects, pool)
    two = second.step("two")
    second.copy.push()
    second.copy.settle()
    first.step("other")
    first.step("more")
    first.copy.push()
    assert sound(objects) == [one, two]
    assert machine(tmp_path, "c", objects, pool).events == [one, two]


def test_a_copy_that_went_another_way_gives_way_and_one_that_is_ahead_stays(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    one = first.step("one")
    first.copy.push()
    ahead = first.step("ahead")
    (first.folder / CHECKPOINTS).write_bytes(b"where it stands")
    again = machine(tmp_path, "a", objects, pool)
    assert again.events == [one, ahead]
    assert (again.folder / CHECKPOINTS).exists()
    second = machine(tmp_path, "b", objects, pool)
    two = second.step("two")
    second.copy.push()
    once_more = machine(tmp_path, "a", objects, pool)
    assert once_more.events == [one, two]
    assert not (once_more.folder / CHECKPOINTS).exists()


def test_a_run_begun_twice_goes_on_as_the_store_has_it(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    first.step("never told")
    second = machine(tmp_path, "b", objects, pool)
    told = second.step("told")
    second.copy.push()
    again = machine(tmp_path, "a", objects, pool)
    assert again.events == [told]
    assert json.loads((again.folder / MANIFEST).read_bytes())["nonce"] == "b"


def test_a_spoilt_picture_is_not_taken_and_a_new_one_is_brought(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    digest = first.step("one")
    first.copy.push()
    key = f"runs/{RUN}/images/{digest}.png"
    objects[key] = b"spoilt"
    second = machine(tmp_path, "b", objects, pool)
    place = second.folder / IMAGES / f"{digest}.png"
    assert not place.exists()
    # Spoilt here, it is not brought.
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"on")
    second.copy.push()
    assert objects[key] == b"spoilt"
    place.write_bytes(b"one")
    second.copy.push()
    assert objects[key] == b"one"


def test_spoilt_answers_are_not_taken(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    first.step("one")
    first.copy.push()
    key = next(key for key in objects if "/answers/" in key)
    objects[key] = objects[key][:-9]
    second = machine(tmp_path, "b", objects, pool)
    assert not (second.folder / ANSWERS).exists()
    assert second.events


def test_a_full_disk_is_told(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Held()
    first = machine(tmp_path, "a", objects, pool)
    told = [first.step("one")]
    first.copy.push()

    def full(place: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("scenewright.service.core.artifacts.working_copy.place_file", full)
        with pytest.raises(RunError, match="disk not full"):
            machine(tmp_path, "b", objects, pool)
    assert sound(objects) == told
    assert machine(tmp_path, "b", objects, pool).events == told


def test_a_folder_that_another_process_drives_is_left_alone(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    objects = Held()
    with RunFolder(tmp_path / "a").locked(), pytest.raises(RunBusy):
        machine(tmp_path, "a", objects, pool)
    assert not objects


@contextmanager
def cut_after(objects: Held, puts: int | None) -> Iterator[None]:
    """The power is cut after so many objects."""
    objects.most = puts
    with suppress(PowerCut):
        yield
    objects.most = None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 2), st.none() | st.integers(0, 3)),
        st.tuples(st.just("step"), st.integers(0, 2), st.none()),
        st.tuples(st.just("push"), st.integers(0, 2), st.none() | st.integers(0, 8)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_is_cut_off_the_run_goes_on_from_what_the_store_tells(
    steps: list[tuple[str, int, int | None]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        objects = Held()
        driving: dict[int, Machine] = {}
        owner: int | None = None
        safe: list[str] = []
        for number, (kind, who, puts) in enumerate(steps):
            if kind == "take":
                # A cut here leaves the machine without the run, and the one before it as it was.
                driving.pop(who, None)
                found = Machine(objects, Path(folder) / str(who), pool)
                with cut_after(objects, puts):
                    found.take()
                    driving[who], owner = found, who
                    assert found.events[: len(safe)] == safe
            elif who in driving and kind == "step":
                driving[who].step(f"{number} of {who}")
            elif who in driving:
                with cut_after(objects, puts):
                    driving[who].copy.push()
                    if who == owner:
                        # The owner was told that it is kept, and has told others.
                        safe = driving[who].events
                if puts is not None and who in driving:
                    del driving[who]
            told = sound(objects)
            # Nothing that was told to others is ever taken back, whoever writes besides.
            assert told[: len(safe)] == safe
        heir = Machine(objects, Path(folder) / "heir", pool)
        heir.take()
        assert heir.events == sound(objects)
        last = heir.step("the end")
        heir.copy.push()
        assert sound(objects)[-1] == last
