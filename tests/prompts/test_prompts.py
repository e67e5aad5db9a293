"""Prompt files: what loads, what is refused, and that rendering is plain substitution."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.prompts import Prompt, PromptError, load_prompt, parse_prompt

HEAD = 'id = "p"\nversion = 1\nsource = "a paper"\n'


def prompt(text: str, head: str = HEAD + 'variables = ["name"]\n') -> Prompt:
    return parse_prompt(f"+++\n{head}+++\n{text}\n", "p.md")


def test_every_shipped_prompt_loads_under_its_name() -> None:
    names = [f.name.removesuffix(".md") for f in files("scenewright.prompts").iterdir()
             if f.name.endswith(".md")]  # fmt: skip
    assert {"judge_binary", "judge_choice", "compose_scene"} <= set(names)
    for name in names:
        assert load_prompt(name).id == name


def test_composition_prompt_is_the_papers() -> None:
    text = load_prompt("compose_scene").render(scene_graph='{"objects": ["dog.1"]}')
    assert text.startswith("You are an AI assistant tasked with converting scene graphs")
    assert '```json\n{"objects": ["dog.1"]}\n```' in text
    assert 'a single key "description"' in text


@given(st.text(max_size=60))
def test_values_are_put_in_as_they_are(value: str) -> None:
    assert prompt("Is there a {name}?").render(name=value) == f"Is there a {value}?"


def test_braces_inside_values_mean_nothing() -> None:
    two = prompt("{a} and {b}", HEAD + 'variables = ["a", "b"]\n')
    assert two.render(a="{b}", b="{a}") == "{b} and {a}"


def test_unknown_and_missing_variables_are_named() -> None:
    with pytest.raises(PromptError, match=r"unknown \['color'\], missing \['name'\]"):
        prompt("{name}").render(color="red")


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (HEAD + 'variables = ["name"]\nmodel = "x"\n', "{name}", "model"),
        (HEAD + 'variables = ["name"]\n', "no variable", "never used"),
        (HEAD, "{name}", "add them to variables"),
        (HEAD + 'variables = ["name", "name"]\n', "{name}", "listed twice"),
        ('id = "p"\nversion = 0\nsource = "s"\n', "text", "version"),
        ('id = "P"\nversion = 1\nsource = "s"\n', "text", "id"),
        ('id = "p"\nversion = 1\n', "text", "source"),
        (HEAD, "", "text"),
        (HEAD + 'tool = "t"\ntool_description = "d"\n', "text", "needs a tool_description and"),
        (HEAD + 'tool = "t"\n[output]\ntype = "object"\n', "text", "needs a tool_description"),
        (HEAD + "version = = 2\n", "text", "not TOML"),
        (HEAD + 'text = "x"\n', "text", "below the front matter"),
    ],
)
def test_bad_files_say_what_is_wrong(head: str, body: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        prompt(body, head)


def test_missing_front_matter_says_how_to_begin() -> None:
    with pytest.raises(PromptError, match=r"p\.md: no front matter: begin with \+\+\+"):
        parse_prompt("hello", "p.md")


@pytest.mark.parametrize("name", ["../secrets", "judge-binary", "", "no_such_prompt"])
def test_unknown_prompts_are_refused(name: str) -> None:
    with pytest.raises(PromptError):
        load_prompt(name)


def test_hash_follows_everything_that_matters() -> None:
    base = prompt("Is there a {name}?")
    assert prompt("Is there a {name}?").hash == base.hash
    assert prompt("Is there a {name}!").hash != base.hash
    assert base.model_copy(update={"version": 2}).hash != base.hash
    assert base.model_copy(update={"output": {"type": "string"}}).hash != base.hash
    assert base.ref == f"p@1#{base.hash[:12]}"
