"""A folder with the files that the examples of the pages name, and the servers that they ask."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.config.accounts import ADDRESS_VARIABLES
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import WHOLE, StudyFolder, Task
from scenewright.mock_providers import MockSettings, ThreadedMockProviders
from tests.evals.human_ratings.rated_objects import rate_next

SCENE = "red ball on table; dog left of table"
RUN = Path("runs/20260101-0123456789")
"""The run folder that the pages name."""
LONGEST = 500.0
"""Seconds that one example may take, on a machine that does something else too."""

MOCK = MockSettings(
    models={"qwen3-vl:8b": "instant", "Qwen/Qwen3-VL-8B-Instruct": "instant"}, longest_hang=30.0
)
PROFILES = ("mine", "my-profile", "flux", "flux-lora")
"""Profiles of the reader's own; here they are the miniature."""
CONDITIONS = ("triplets", "composition", "feedback")
PANEL = """
name = "panel"
resamples = 100

[source]
kind = "painted"
paintings = 3
judges = ["local:miniature/judge-a", "local:miniature/judge-b"]
"""
EVALUATION = """
name = "{name}"
backends = {backends}
conditions = {conditions}

[dataset]
name = "miniature"
limit = {limit}
options = {{ levels = ["hard"] }}
"""
SCHEMA = """
[[classes]]
name = "dog"
existence = "Is there a dog in the image?"
[[classes.attributes]]
part = "dog"
description = "red"
[[classes.attributes]]
part = "ball"
description = "blue"
"""
LABELS = "image,subject,value,predicate,target,holds\n" + "".join(
    f"picture.png,{row}\n" for row in ("dog,,,,1", "cat,,,,0", "ball,red,,,1", "ball,,on,table,1")
)


class TooLongError(BaseException):
    """An example that did not end in time."""


@contextlib.contextmanager
def bounded(seconds: float = LONGEST) -> Iterator[None]:
    """Raise :class:`TooLongError` in this thread unless the block ends in ``seconds``."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise TooLongError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ended)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def point_at(mock: ThreadedMockProviders, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make ``folder`` the reader's, whose accounts are a mock's and whose browser opens nothing."""
    addresses = {"openai": mock.openai_url}
    for provider, variable in ADDRESS_VARIABLES.items():
        patch.setenv(variable, addresses.get(provider, mock.url))
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"):
        patch.setenv(name, "any")
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    patch.setenv("HOME", str(folder))
    patch.setattr("webbrowser.open", lambda *_, **__: True)
    patch.chdir(folder)


def call(*words: str) -> str:
    """Run a command in this folder; its output."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, f"{words}: {done.output}"
    return done.stdout


def evaluation(
    name: str,
    conditions: tuple[str, ...] = ("triplets",),
    backends: tuple[str, ...] = ("miniature",),
    limit: int = 2,
) -> str:
    """Return the configuration of a small evaluation."""
    return EVALUATION.format(
        name=name, backends=json.dumps(backends), conditions=json.dumps(conditions), limit=limit
    )


def furnish(mock: ThreadedMockProviders) -> None:
    """Write pictures, scenes, settings and a finished run into this folder."""
    servers = "".join(
        f'[accounts.{name}]\nprovider = "openai"\nbase_url = "{mock.openai_url}"\n'
        'key_variable = ""\n'
        for name in ("ollama", "vllm")
    )
    profiles = "".join(f'[profiles.{name}]\nextends = "miniature"\n' for name in PROFILES)
    Path("scenewright.toml").write_text(servers + profiles, encoding="utf-8")
    for name in ("picture", "painted", "photo", "table"):
        call("miniature", "paint", SCENE, f"{name}.png")
    Image.open("photo.png").convert("RGB").save("photo.jpg", quality=95)
    mask = Image.new("RGBA", Image.open("table.png").size, (0, 0, 0, 255))
    ImageDraw.Draw(mask).rectangle((8, 8, 72, 72), fill=(0, 0, 0, 0))
    mask.save("mask.png")
    Path("scene.json").write_text(call("parse", SCENE, "--to", "json"), encoding="utf-8")
    call("refine", SCENE, "--rounds", "1", "--out", str(RUN))
    boxes = [("ball", [52, 36, 78, 62]), ("table", [40, 60, 100, 110])]
    Path("boxes.json").write_text(
        json.dumps([{"name": name, "box": box} for name, box in boxes]), encoding="utf-8"
    )
    Path("labels.csv").write_text(LABELS, encoding="utf-8")
    Path("mine.toml").write_text(evaluation("mine", CONDITIONS), encoding="utf-8")
    Path("study.toml").write_text(evaluation("study"), encoding="utf-8")
    Path("panel.toml").write_text(PANEL, encoding="utf-8")
    Path("gate.toml").write_text(evaluation("gate"), encoding="utf-8")
    _photos(Path("val2017"), Path("instances_val2017.json"))
    _training_pictures()


def _photos(folder: Path, detections: Path) -> None:
    """Write photos with boxes, as the release of COCO has them."""
    folder.mkdir()
    images, marks = [], []
    for at in range(2):
        name = f"{at}.png"
        shutil.copy("photo.png", folder / name)
        images.append({"id": at + 1, "file_name": name, "width": 128, "height": 128})
        for kind, box in ((1, [8, 40, 30, 40]), (2, [52, 36, 26, 26]), (3, [40, 60, 60, 50])):
            marks.append(
                {"id": len(marks) + 1, "image_id": at + 1, "category_id": kind, "iscrowd": 0,
                 "bbox": box, "area": box[2] * box[3]}
            )  # fmt: skip
    kinds = [{"id": at + 1, "name": name} for at, name in enumerate(("dog", "ball", "table"))]
    data = {"images": images, "annotations": marks, "categories": kinds}
    detections.write_text(json.dumps(data), encoding="utf-8")


def _training_pictures() -> None:
    """Write what REAL scores: pictures by class, schemas, texts and a set of annotations."""
    Path("birds.toml").write_text(SCHEMA, encoding="utf-8")
    Path("generated/dog").mkdir(parents=True)
    for name in ("a", "b"):
        call("miniature", "paint", "red dog left of blue ball", f"generated/dog/{name}.png")
    Path("texts").mkdir()
    Path("texts/dog.txt").write_text("A dog has a red coat and a short tail.", encoding="utf-8")
    cub = Path("CUB_200_2011")
    cub.mkdir()
    for name, line in (
        ("classes", "1 001.Wren"),
        ("attributes", "1 has_bill_color::red"),
        ("image_class_labels", "1 1"),
        ("image_attribute_labels", "1 1 1 4 0.5"),
    ):
        (cub / f"{name}.txt").write_text(f"{line}\n", encoding="utf-8")


def furnish_evaluations() -> None:
    """Write finished evaluations into this folder."""
    call("eval", "run", "mine.toml", "--quiet")
    config = Path("release.toml")
    config.write_text(evaluation("release-1"), encoding="utf-8")
    call("eval", "run", str(config), "--quiet")
    for name in ("release-2", "old", "new", "earlier"):
        shutil.copytree("evals/release-1", Path("evals") / name)


def furnish_arms(conditions: tuple[str, ...] = ("composition", "feedback")) -> None:
    """Make ``evals/mine`` one of four models by profiles of the reader's own."""
    models = ("sdxl", "sd15", "sd21", "ours")
    settings = Path("scenewright.toml")
    known = settings.read_text(encoding="utf-8")
    new = "".join(
        f'[profiles.{name}]\nextends = "miniature"\nsteps = {steps}\n'
        for name, steps in zip(models, (20, 16, 12, 8), strict=True)
    )
    settings.write_text(known.removesuffix(new) + new, encoding="utf-8")
    shutil.rmtree("evals/mine")
    config = Path("mine.toml")
    config.write_text(evaluation("mine", conditions, models), encoding="utf-8")
    call("eval", "run", str(config), "--quiet")


def give_ratings(folder: str) -> None:
    """Rate all that a study shows, as two people on its pages."""
    study = StudyFolder(Path(folder))
    if study.study.kind == "objects":
        with contextlib.closing(RatingStore(study)) as objects:
            for at, name in enumerate(("ann", "ben")):
                rater = objects.rater(name)
                while rate_next(objects, rater, lambda _, at=at: (4 - at, 3 + at)):
                    pass
        return
    with contextlib.closing(RatingStore(study)) as store:
        for name in ("ann", "ben"):
            rater = store.rater(name)
            for number in range(1, store.progress(rater).total + 1):
                showing = store.showing(rater, number)
                assert showing is not None
                for fact, value in _said(study.study.kind, showing.task).items():
                    store.keep(rater, number, fact, value, seconds=1.0)


def _said(kind: str, task: Task) -> dict[str, str]:
    return {fact.id: "yes" for fact in task.facts} if kind == "facts" else {WHOLE: "1"}


def furnish_set() -> None:
    """Build ``built/coco``, with a reference and people's answers about it."""
    panel = "gemini:gemini-3.8-flash,openai:gpt-6-luna,anthropic:claude-haiku-5-5"
    photos = ("--photos", "val2017", "--detections", "instances_val2017.json")
    call("data", "annotate", *photos, "--panel", panel, "--rare", "0", "--out", "built/coco", "-q")
    shutil.copy("built/coco/graphs.jsonl", "reference.jsonl")
    Path("answers.csv").write_text(
        "image_id,source,relation,target,answer,rater\n1,dog.1,on,ball.1,yes,me\n", encoding="utf-8"
    )


def expanded(word: str) -> list[str]:
    """Return what a shell makes of a word: variables, and files that a pattern matches."""
    word = os.path.expandvars(word)
    found = sorted(str(path) for path in Path().glob(word)) if "*" in word else []
    return found or [word]
