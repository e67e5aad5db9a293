"""``scenewright parse`` of captions and images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from langchain_core.language_models import BaseChatModel
from PIL import Image
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.cli.parse import read_boxes
from scenewright.core.formats import load_scene
from scenewright.core.scene import SceneGraph
from scenewright.miniature.painter import paint
from scenewright.providers.retry import CallError, PermanentError
from scenewright.runs.model_factory import profiles
from scenewright.runs.plan import plan_run
from tests.agents.replying import ReplyingChat
from tests.isomorphism import isomorphic

CAPTION = "A brown dog is left of a red ball."
GRAPH: dict[str, Any] = {
    "objects": [
        {"id": "dog.1", "name": "dog", "attributes": [{"key": "color", "value": "brown"}]},
        {"id": "ball.1", "name": "ball", "attributes": [{"key": "color", "value": "red"}]},
    ],
    "relationships": [{"source": "dog.1", "target": "ball.1", "relation": "left of"}],
}
SCENE = load_scene("brown dog left of red ball", format="triplets")
PROFILE = """
[profiles.mine]
backend = "diffusers:miniature"
judges = ["local:miniature/judge-a"]
chat = "{chat}"
"""


class Chats:
    """What the language model of every profile is, and how it was asked for."""

    def __init__(self) -> None:
        self.model = ReplyingChat(replies=[GRAPH])
        self.asked: list[tuple[str, object]] = []

    def build_chat(
        self, spec: str, settings: object = None, *, role: str = "", overrides: object = None
    ) -> BaseChatModel:
        assert role == "parser"
        self.asked.append((spec, overrides))
        return self.model


@pytest.fixture(autouse=True)
def chats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Chats:
    made = Chats()
    monkeypatch.setattr(profiles, "build_chat", made.build_chat)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SCENEWRIGHT_DEBUG", "0")
    text = PROFILE.format(chat="openai:gpt-4.1-mini")
    (tmp_path / "scenewright.toml").write_text(text, encoding="utf-8")
    Image.new("RGB", (40, 30), (9, 9, 9)).save("photo.png")
    return made


def call(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["parse", *map(str, arguments)], input=text)


def scene_of(done: Result) -> SceneGraph:
    assert done.exit_code == 0, done.output
    return SceneGraph.model_validate(json.loads(done.stdout)["scene"])


def test_a_caption_is_read_by_rules_without_a_model(chats: Chats) -> None:
    found = scene_of(call("--caption", CAPTION, "--json"))
    assert {item.name for item in found.objects} == {"dog", "ball"}
    assert len(found.relations) == 1
    assert "2 objects, 1 relation" in call("--caption", "-", text=CAPTION).stdout
    assert chats.asked == []


def test_words_of_a_caption_that_were_not_read_are_told_with_their_place() -> None:
    done = call("--caption", "a dog glancing furtively", "--json")
    assert json.loads(done.stdout)["unread"] == [
        {"start": 15, "end": 24, "text": "furtively", "reason": "not understood"}
    ]
    assert "'furtively' (characters 15 to 24: not understood)" in done.stderr
    without = json.loads(call("--caption", "a room with no cat", "--json").stdout)
    assert without["scene"]["intent"]["exclusions"][0]["name"] == "cat"
    assert without["facts"][-1]["expected"] == "no"


def test_a_caption_is_read_by_the_profiles_language_model(chats: Chats) -> None:
    done = call("--caption", CAPTION, "--with", "llm", "--profile", "mine", "--json")
    assert isomorphic(scene_of(done), SCENE)
    assert chats.asked == [("openai:gpt-4.1-mini", None)]
    assert CAPTION in chats.model.said()
    converted = call("--caption", CAPTION, "--with", "llm", "-p", "mine", "--to", "triplets")
    assert converted.stdout == "brown dog left of red ball\n"


def test_an_image_is_read_by_the_profiles_language_model(chats: Chats) -> None:
    assert isomorphic(scene_of(call("--image", "photo.png", "-p", "mine", "--json")), SCENE)
    sampling = {"temperature": 0.7, "top_p": 0.95, "seed": 0}
    assert chats.asked == [("openai:gpt-4.1-mini", {"sampling": sampling})]
    assert "(40, 30)" in chats.model.said()


def test_boxes_of_a_file_are_given_to_the_model(chats: Chats) -> None:
    boxes = [{"name": "dog", "box": [1, 2, 20, 20]}, {"name": "ball", "box": [22, 2, 39, 20]}]
    Path("boxes.json").write_text(json.dumps(boxes), encoding="utf-8")
    found = scene_of(call("--image", "photo.png", "-p", "mine", "--boxes", "boxes.json", "--json"))
    assert [str(relation) for relation in found.relations] == ["dog.1 left of ball.1"]
    assert not any(item.attributes for item in found.objects)
    assert "ball.1:[22, 2, 39, 20]" in chats.model.said()


def test_a_painted_image_is_read_by_the_judges(chats: Chats) -> None:
    scene = load_scene("red ball on blue table; black dog left of table", format="triplets")
    paint(scene, seed=1).image.save("painted.png")
    found = scene_of(call("--image", "painted.png", "--profile", "miniature", "--json"))
    assert {(o.name, o.attributes["color"]) for o in found.objects} == {
        ("ball", "red"),
        ("table", "blue"),
        ("dog", "black"),
    }
    assert {"ball.1 on table.1", "dog.1 left of table.1"} <= {str(r) for r in found.relations}
    assert chats.asked == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name one thing to read"),
        (["dog", "--caption", "a dog"], "name one thing to read"),
        (["dog", "--with", "judges"], "llm or rules"),
        (["--caption", "a dog", "--with", "judges"], "llm or rules"),
        (["--caption", "a dog", "--index", "1"], "--index"),
        (["--caption", "a dog", "--boxes", "b.json"], "add --image"),
        (["--caption", "", "--with", "llm", "-p", "mine"], "the caption is empty"),
        (["--caption", "a dog", "--with", "llm", "-p", "miniature"], "no language model that"),
        (["--caption", "a dog", "--with", "llm", "-p", "nobody"], "nobody"),
        (["--image", "photo.png", "--with", "rules"], "llm or judges"),
        (["--image", "none.png"], "none.png"),
        (["--image", "photo.png", "-p", "mine", "--boxes", "none.json"], "none.json"),
    ],
)
def test_wrong_input_is_one_clear_line(arguments: list[str], says: str, chats: Chats) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert chats.model.sent == []


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '["dog"]', '[{"name": "dog"}]', '[{"name": "dog", "box": [1, 2, 3]}]',
     '[{"name": 5, "box": [1, 2, 3, 4]}]', '[{"name": "dog", "box": [1, 2, 3, "4"]}]'],
)  # fmt: skip
def test_boxes_of_another_form_say_how_to_write_them(text: str) -> None:
    Path("boxes.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r'boxes\.json.*"box"'):
        read_boxes(Path("boxes.json"))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (CallError(PermanentError("wrong key"), 1), "wrong key"),
        ("I see nothing.", "I see nothing."),
    ],
)
def test_a_model_that_fails_is_told_with_its_own_exit_code(
    reply: Any, says: str, chats: Chats
) -> None:
    chats.model = ReplyingChat(replies=[reply])
    done = call("--caption", CAPTION, "--with", "llm", "-p", "mine", "--json")
    assert done.exit_code == 3
    assert says in done.stderr
    assert done.stdout == ""


def options(*arguments: str) -> list[list[str]]:
    """The options of the relations that ``parse`` shows for these arguments."""
    facts = json.loads(call(*arguments, "--json").stdout)["facts"]
    return [fact["options"] for fact in facts if fact["kind"] == "relation"]


def planned(profile: str) -> list[list[str]]:
    """The same as a run of the profile asks them."""
    facts = plan_run(SCENE, profile).profile.form().facts(SCENE)
    return [list(fact.options) for fact in facts if fact.kind == "relation"]


def test_facts_are_shown_as_a_run_of_the_profile_asks_them() -> None:
    scene = "brown dog left of red ball"
    text = Path("scenewright.toml").read_text(encoding="utf-8")
    strict = '[profiles.strict]\nextends = "mine"\nprotocol = "scene-bench"\n'
    Path("scenewright.toml").write_text(text + strict, encoding="utf-8")
    found = {name: options(scene, "--profile", name) for name in ("miniature", "mine")}
    assert found == {name: planned(name) for name in found}
    assert found["miniature"] != found["mine"]
    # As in a run, the settings' profile asks where none is named.
    assert options(scene) == found["miniature"]
    facts = json.loads(call(scene, "-p", "strict", "--json").stdout)["facts"]
    assert all(not fact["parents"] for fact in facts)
    grounded = call(scene, "-p", "strict", "--protocol", "grounded", "--json").stdout
    assert any(fact["parents"] for fact in json.loads(grounded)["facts"])
    shown = " ".join(call(scene, "--facts").stdout.split())
    assert " / ".join(found["miniature"][0]) in shown
    unknown = call(scene, "--facts", "--profile", "nobody")
    assert unknown.exit_code == 2
    assert "no profile 'nobody'" in unknown.stderr
