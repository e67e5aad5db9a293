"""``scenewright data synthesize`` and ``classify``, by rules and by the mock server's models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from scenewright.agents.composers.check import lost_facts
from scenewright.cli.data import app
from scenewright.config.settings import SETTINGS_FILE
from scenewright.evals.datasets.psg_prompts import rows as psg_bench
from scenewright.mock_providers import ThreadedMockProviders, serving_thread


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread() as made:
        yield made


@pytest.fixture
def account(lab: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An account of the mock server; each test has a key of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_KEY", key := f"key-{tmp_path.name}")
    (tmp_path / SETTINGS_FILE).write_text(
        f'[accounts.lab]\nprovider = "openai"\nbase_url = "{lab.openai_url}"\n'
        'key_variable = "LAB_KEY"\nattempts = 1\n',
        encoding="utf-8",
    )
    return key


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_prompts_by_rules_are_told_of_and_read_back(tmp_path: Path) -> None:
    out = tmp_path / "prompts.jsonl"
    result = run("synthesize", out, "-n", 40, "--names", "coco")
    assert result.exit_code == 0, result.output
    assert "paper (PSG-Bench, Table 6)" in result.stdout
    assert "877" in result.stdout
    assert len(rows(out)) == 40
    assert [item.id for item in psg_bench.load(out)] == sorted(row["id"] for row in rows(out))
    said = json.loads(run("synthesize", out, "-n", 40, "--names", "coco", "--json").stdout)
    assert said["prompts"] == 40
    assert sum(said["challenges"].values()) == 40
    assert said["paper"]["prompts"]["PEOPLE"] == 877
    assert said["stand_ins"] == 0


def test_rows_that_are_there_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "prompts.jsonl"
    assert run("synthesize", out, "-n", 12, "-q").exit_code == 0
    before = out.read_text(encoding="utf-8").splitlines()
    edited = before[3].replace('"prompt": "', '"prompt": "By hand: ')
    # A kill has cut off the last row.
    out.write_text("\n".join([*before[:3], edited, before[4][:50]]), encoding="utf-8")
    result = run("synthesize", out, "-n", 12)
    assert result.exit_code == 0, result.output
    assert "8 prompts to be written, 4 are there" in result.stderr
    after = out.read_text(encoding="utf-8").splitlines()
    assert after == [*before[:3], edited, *before[4:]]


def test_a_file_of_another_draw_is_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "prompts.jsonl"
    assert run("synthesize", out, "-n", 5).exit_code == 0
    before = out.read_bytes()
    result = run("synthesize", out, "-n", 9, "--seed", 4)
    assert result.exit_code == 2
    assert "holds another p00000" in result.stderr
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("synthesize", "a.json"), "must end in .jsonl"),
        (("synthesize", "a.jsonl", "--templates", "poem"), "no template 'poem'"),
        (("synthesize", "a.jsonl", "--names", "imagenet"), "no names 'imagenet'"),
        (("synthesize", "a.jsonl", "--chat", "local:miniature"), "not a model of an account"),
        (("classify", "nothing.jsonl"), "there is no file"),
    ],
)
def test_wrong_input_is_told(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_model_writes_texts_that_say_every_fact(tmp_path: Path, account: str) -> None:
    out = tmp_path / "prompts.jsonl"
    arguments = ("synthesize", out, "-n", 16, "--names", "miniature", "--chat", "lab:gpt-4o")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert "16 calls, about" in result.stderr
    items = list(psg_bench.load(out))
    assert {item.meta["author"] for item in items} == {"model"}
    for item in items:
        assert item.scene is not None
        assert lost_facts(item.scene, item.prompt) == ()
    again = run(*arguments)
    assert "0 prompts to be written, 16 are there" in again.stderr
    assert "calls, about" not in again.stderr


def test_where_the_model_fails_the_rules_stand_in_and_say_so(
    tmp_path: Path, account: str, lab: ThreadedMockProviders
) -> None:
    out = tmp_path / "prompts.jsonl"
    arguments = ("synthesize", out, "-n", 3, "--chat", "lab:gpt-4o", "-q")
    lab.schedule("refusal", 1, key=account)
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert "1 texts by rules in place of the model" in result.stderr
    (failed,) = (row for row in rows(out) if row["meta"]["author"] == "rules")
    assert "declined" in failed["meta"]["problem"]
    assert run(*arguments).exit_code == 1
    assert run(*arguments, "--retry").exit_code == 0
    assert [row["meta"]["author"] for row in rows(out)] == ["model"] * 3
    assert [row["id"] for row in rows(out)] == ["p00000", "p00001", "p00002"]


def test_a_model_that_never_answers_ends_the_work(
    tmp_path: Path, account: str, lab: ThreadedMockProviders
) -> None:
    lab.schedule("500", 40, key=account)
    result = run("synthesize", tmp_path / "a.jsonl", "-n", 40, "--chat", "lab:gpt-4o", "-q")
    assert result.exit_code == 2
    assert "failed 5 times and never answered" in result.stderr
    assert len(rows(tmp_path / "a.jsonl")) < 20


def test_prompts_are_classified_by_rules_and_by_a_model(tmp_path: Path, account: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        'id,prompt\na,A cat is flying.\nb,a team playing baseball at the beach\nc,"a bus, red"\n',
        encoding="utf-8",
    )
    result = run("classify", file)
    assert result.exit_code == 0, result.output
    out = tmp_path / "mine.classified.jsonl"
    by_rules = [(row["group"], row["category"]) for row in rows(out)]
    assert by_rules == [("ANIMALS", "IMAGINATION"), ("PEOPLE", "NONE"), ("VEHICLES", "NONE")]
    assert {row["meta"]["classified_by"] for row in rows(out)} == {"rules@1"}
    asked = run("classify", file, "--chat", "lab:gpt-4o")
    assert asked.exit_code == 0, asked.output
    assert "1 calls" in asked.stderr
    assert [(row["group"], row["category"]) for row in rows(out)] == by_rules
    assert {row["meta"]["classified_by"] for row in rows(out)} == {"lab:gpt-4o"}
    assert "0 of 3 prompts" in run("classify", file, "--chat", "lab:gpt-4o").stderr


def test_what_a_model_does_not_classify_is_told_and_asked_again(
    tmp_path: Path, account: str, lab: ThreadedMockProviders
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"id": "a", "prompt": "a dog"}\n', encoding="utf-8")
    lab.schedule("refusal", 1, key=account)
    result = run("classify", file, "--chat", "lab:gpt-4o")
    assert result.exit_code == 1, result.output
    assert "1 prompts are not classified" in result.stderr
    (row,) = rows(tmp_path / "mine.classified.jsonl")
    assert "group" not in row
    assert "declined" in row["meta"]["class_note"]
    assert run("classify", file, "--chat", "lab:gpt-4o").exit_code == 0
    (row,) = rows(tmp_path / "mine.classified.jsonl")
    assert row["group"] == "ANIMALS"
    assert "class_note" not in row["meta"]
