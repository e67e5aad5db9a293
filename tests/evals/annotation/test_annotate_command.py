"""``scenewright data annotate``, ``quality`` and ``spotcheck``, over the mock server's wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scenewright.cli.data_annotate import app
from scenewright.mock_providers import ThreadedMockProviders, serving_thread
from tests.doubles import painted

BOXES = ((1, "person", (2, 2, 18, 38)), (2, "dog", (22, 20, 18, 20)), (3, "ball", (44, 30, 16, 10)))


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread() as made:
        yield made


@pytest.fixture
def folder(lab: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenewright.toml").write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab.openai_url}"\nkey_variable = ""\n'
    )
    (tmp_path / "photos").mkdir()
    images, marks = [], []
    for at in range(4):
        name = f"{at}.png"
        painted((64, 48), (40 * at, 90, 161)).save(tmp_path / "photos" / name)
        images.append({"id": at + 1, "file_name": name, "width": 64, "height": 48})
        for kind, _, (x, y, width, height) in BOXES:
            marks.append(
                {"id": len(marks) + 1, "image_id": at + 1, "category_id": kind, "iscrowd": 0,
                 "bbox": [x, y, width, height], "area": width * height}
            )  # fmt: skip
    kinds = [{"id": kind, "name": name} for kind, name, _ in BOXES]
    data = {"images": images, "annotations": marks, "categories": kinds}
    (tmp_path / "boxes.json").write_text(json.dumps(data))
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


GIVEN = ("--photos", "photos", "--detections", "boxes.json", "--panel", "lab:instant")


def test_a_set_is_planned_built_checked_and_measured(folder: Path) -> None:
    plan = run("annotate", *GIVEN, "--plan", "--json", "--out", "set")
    assert plan.exit_code == 0
    told = json.loads(plan.stdout)
    assert told["lines"]["lab:instant"]["calls"] == 4
    made = run("annotate", *GIVEN, "--rare", "0", "--json", "--out", "set", "--quiet")
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    assert (found["graphs"], found["photos"]) == (4, {"kept": 4})
    page = run("spotcheck", "set", "-n", "2", "--out", "page", "--json")
    assert json.loads(page.stdout)["photos"] == 2
    same = run("quality", "set", "set/graphs.jsonl", "--json")
    assert json.loads(same.stdout)["recall_at"]["R@20"]["value"] == 1.0
    (folder / "answers.csv").write_text(
        "image_id,source,relation,target,answer,rater\n1,dog.1,on,ball.1,yes,me\n"
    )
    checked = run("quality", "set", "--spotcheck", "answers.csv")
    assert checked.exit_code == 0
    assert "precision  1.000" in checked.stdout


def test_a_configuration_does_the_same_and_options_change_it(folder: Path) -> None:
    (folder / "annotate.toml").write_text(
        'name = "mine"\npanel = ["lab:instant"]\nrare = 50\ndiversity = false\n'
        'attributes = false\nsynonyms = false\n[dataset]\nname = "coco"\npath = "boxes.json"\n'
        'options = { images = "photos" }\n'
    )
    none = run("annotate", "annotate.toml", "--quiet")
    assert none.exit_code == 4, "every predicate is rarer than 50"
    some = run("annotate", "annotate.toml", "--rare", "1")
    assert some.exit_code == 0, some.output
    assert "4 scene graphs in built/mine" in some.stdout
    assert (folder / "built" / "mine" / "manifest.json").exists()


def test_above_the_limit_it_asks_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    given = (*GIVEN[:4], "--panel", "openai:gpt-4.1", "--limit-usd", "0", "--quiet")
    refused = run("annotate", *given)
    assert refused.exit_code == 2
    assert "add --yes, or raise --limit-usd" in refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("annotate",), "name a CONFIG, or"),
        (("annotate", "lost.toml"), "lost.toml does not exist"),
        (("annotate", "boxes.json", *GIVEN[:2]), "CONFIG names the photos"),
        (("annotate", *GIVEN[:4], "--panel", "local:x"), "writes no scene graphs"),
        (("annotate", *GIVEN[:4], "--panel", "lab:a,lab:a"), "twice"),
        (("annotate", *GIVEN[:4], "--panel", "nobody:a"), "no account 'nobody'"),
        (("annotate", *GIVEN[:2], "--detections", "lost.json", *GIVEN[4:]), "lost.json"),
        (("quality", "lost"), "name a REFERENCE"),
        (("quality", "lost", "lost"), "there is no set"),
        (("spotcheck", "lost"), "there is no set"),
    ],
)
def test_wrong_input_is_one_line(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code in (2, 3)
    assert message in done.output
    assert "Traceback" not in done.output
