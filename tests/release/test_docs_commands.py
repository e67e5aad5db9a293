"""The shell blocks of the pages: every command is parsed, and run where it can run here."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.main import app
from scenewright.evals.store.results import Results
from scenewright.mock_providers import ThreadedMockProviders, serving_thread
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.evals.studies.olip.rated_sets import write_rated
from tests.release.docs_blocks import PAGES, ROOT, Block, Command, all_blocks, blocks, commands
from tests.release.docs_place import (
    CONDITIONS,
    MOCK,
    bounded,
    call,
    evaluation,
    expanded,
    furnish_arms,
    furnish_set,
    give_ratings,
    point_at,
)
from tests.service.threaded import threaded

BLOCKS = all_blocks("sh")
OURS = "scenewright"

RAY = "needs a Ray cluster"
SERVES = "serves until it is stopped"
NOT_RUN: Mapping[str, str] = {
    command: reason
    for reason, them in {
        SERVES: (
            "scenewright serve",
            "scenewright serve --running 8 --database postgresql://me@db/scenewright",
            "scenewright serve --no-work --database postgresql://USER:PASSWORD@HOST/NAME",
            "scenewright serve --keys --trusted-host studio.example",
            "scenewright worker --running 4 --database postgresql://USER:PASSWORD@HOST/NAME",
            "scenewright mcp --data ~/scenewright-data",
            "scenewright mock serve --port 8765",
            "scenewright mock serve --requests-per-minute 500 --latency 0.8 --fault 503=0.01 "
            "--fault timeout=0.002",
        ),
        RAY: (
            "scenewright eval run mine.toml --engine ray --workers 2",
            "scenewright eval run mine.toml --engine ray --address auto --workers 16",
            "scenewright eval run mine.toml --engine ray --address auto --workers 3",
            "scenewright data annotate annotate.toml --engine ray --workers 2",
            "scenewright data annotate annotate.toml --engine ray --address auto --workers 16",
        ),
        "fetches from the network": (
            "scenewright data get visual-genome",
            "scenewright data get geneval2",
            "scenewright data get coco --only val2017.zip",
            "scenewright models pull sdxl",
            "scenewright models pull sdxl --dry-run",
            "scenewright models pull local:Qwen/Qwen3-VL-4B-Instruct",
            "scenewright models pull diffusers:stabilityai/stable-diffusion-xl-base-1.0",
            "scenewright models pull transformers:facebook/mask2former-swin-large-coco-panoptic",
            "scenewright models pull diffusers:/models/my-flux.safetensors",
        ),
        "needs a set that is fetched first": (
            "scenewright eval plan geneval2 --models mine",
            "scenewright eval run geneval2 --models mine",
            "scenewright eval run geneval2 --models mine --loop 4",
            "scenewright eval benchmark evals/geneval2",
            "scenewright data show dsg -n 3 --set split=whoops",
            "scenewright data stats dsg --out plots",
            "scenewright study run feedback --profile sdxl",
            "scenewright study run tables23 --profile sdxl --plan",
            "scenewright study run all --profile sdxl --plan",
            "scenewright study run all --profile sdxl",
            "scenewright rate report tifa160-likert-anns.csv --kind score "
            "--columns rater=worker_id,item=item_id,arm=t2i_model,value=answer",
        ),
        "needs weights of the hub": (
            "scenewright refine scene.json --profile sdxl",
            'scenewright refine "a red ball left of a cube" '
            "-m diffusers:/models/dreamshaper.safetensors",
            "scenewright extract photo.jpg -e two-stage:openai:gpt-6-luna -d transformers:FOLDER",
            "scenewright real-bench style train set --model openai/clip-vit-base-patch32 "
            "--out style",
            "scenewright object-realism train rated/ olip/ --encoder Salesforce/blip-itm-base-coco",
        ),
        "works for minutes": (
            "scenewright study run feedback",
            "scenewright study run all --out studies/mine",
            "scenewright study run mine.toml",
            "scenewright study run mine.toml --part power --part people",
            "scenewright eval run examples/paper-feedback.toml",
            "scenewright eval run examples/peers.toml --out evals/peers",
            "scenewright eval peers evals/peers",
            "scenewright eval peers evals/peers --ratings ratings.csv",
            "scenewright real-bench style paint set -n 500",
            "scenewright real-bench style train set --model miniature --out style",
            "scenewright object-realism train rated/ olip/ --widths 128,96,48",
            "scenewright object-realism ablate rated/ ablations/ --widths 128,96,48 --seeds 5",
        ),
        "asks in a terminal: tests/cli/test_intents.py": (
            'scenewright refine "two dogs and cats on sofas" --ask',
        ),
        "needs what the line before works on for minutes": (
            "scenewright real-bench style score generated --model style --store style.sqlite "
            "--out style.jsonl",
            "scenewright real-bench score generated/ --schema birds.json --style style "
            "--out scores.jsonl",
            "scenewright real-bench filter scores.jsonl --top 5 --out best",
            "scenewright real-bench filter generated/ --schema birds.json --style style --top 5 "
            "--out best",
            "scenewright object-realism evaluate rated/ olip:olip/ olip:miniature/olip-a "
            "--out table/",
        ),
        "asks a server of others": (
            "TYPESAFE_API_KEY=… scenewright judges report -j decision:typesafe/jev-latest "
            "--labels labels.csv",
            "scenewright judges report -j decision:transformers/$PWD/scenewright/miniature/"
            "weights/judges/judge-a --quick",
        ),
    }.items()
    for command in them
}
"""Command → why it is parsed and not run."""

OTHER_PROGRAMS: Mapping[str, str] = {
    "cd": "the shell",
    "cp": "the shell",
    "export": "the shell",
    "sed": "the shell",
    "docker": "tests/deploy",
    "kubectl": "tests/deploy",
    "pip": "its extras are checked here",
    "inspect": "of the extra inspect, which has an environment of its own",
    "ray": RAY,
    "transformers": SERVES,
    "vllm": SERVES,
    ".venv-langgraph/bin/langgraph": "has an environment of its own: tests/test_langgraph_dev.py",
}
"""Program of others → why it is not run."""
OTHER_MODULES = frozenset({"sglang.launch_server"})
"""Modules of programs that are not installed here."""


ANSWERS: Mapping[str, tuple[str, ...]] = {"scenewright init": ("--profile", "miniature")}
"""Command that asks in a terminal → the options that answer without one."""
INPUT: Mapping[str, str] = {
    "scenewright keys set openai": "a-key\n",
}
"""Command → what its reader types."""


def write_xtc() -> None:
    config, *_ = blocks(ROOT / "docs/xtc.md", "toml")
    Path("xtc.toml").write_text(config.text.replace("n = 20", "n = 2"), encoding="utf-8")


def write_evening() -> None:
    _, figures, *_ = blocks(ROOT / "docs/public-benchmarks.md", "toml")
    Path("evening.toml").write_text(figures.text, encoding="utf-8")


def write(name: str, limit: int = 2) -> None:
    """Write the configuration of an evaluation of so many items."""
    Path(f"{name}.toml").write_text(evaluation(name, CONDITIONS, limit=limit), encoding="utf-8")


BEFORE: Mapping[str, Callable[[], object]] = {
    "scenewright eval plan --images 800 --figures evening.toml --workers 1 --machine-usd 0.5": (
        write_evening
    ),
    "scenewright init": lambda: Path("scenewright.toml").unlink(),
    "scenewright eval plan mine.toml --pilot 12": lambda: write("mine", 14),
    "scenewright eval plan mine.toml --pilot 12 --save figures.toml": lambda: write("mine", 14),
    "scenewright eval run mine.toml": lambda: write("mine"),
    "scenewright data quality built/coco reference.jsonl": furnish_set,
    "scenewright eval xtc run xtc.toml": write_xtc,
    "scenewright rate make evals/mine --kind choice --arms sd15,sd21,sdxl,ours --n 1000 --seed 0 "
    "--out ratings": partial(furnish_arms, ("composition",)),
    "scenewright object-realism evaluate rated/ judge:local:miniature/judge-a "
    "few-shot:judge:local:miniature/judge-a": partial(write_rated, Path("rated")),
}
"""Command → what is done in the folder first."""


def newest_key(_: str) -> str:
    listed = json.loads(call("keys", "list", "--json"))
    return str(listed["keys"][0]["id"])


FILLED: Mapping[str, Callable[[str], str]] = {"0123456789abcdef": newest_key}
"""Word that stands for the reader's own → what it is here."""

INSTEAD: Mapping[str, Callable[[], object]] = {
    f"scenewright rate serve {folder}": partial(give_ratings, folder)
    for folder in ("ratings", "ratings-objects", "ratings-facts")
}
"""Command that waits for people → what they do."""

PAGE: Mapping[str, Callable[[], object]] = {"docs/reports.md": furnish_arms}
"""Page → what its commands find in the folder."""

MEASURED: Mapping[str, tuple[int, ...]] = {
    "refine": (1,),
    "edit": (1,),
    "gate": (1, 4),
    "eval plan": (1,),
    "eval xtc run": (1,),
}
"""Command → exit codes that tell of what it measured: missing or unscored facts, too few scenes, a
disk that is too small."""

QUICK = {
    "data list", "data options", "eval recipes", "judges list", "keys create", "keys list",
    "keys revoke", "keys set", "miniature paint", "models list", "open", "parse",
    "real-bench schema check", "score", "show", "strategies", "study example", "study list",
    "study parts",
}  # fmt: skip
"""Commands that take less than a second; a block of others is slow."""


def ours(*, runs: bool = True) -> list[Command]:
    return [
        command
        for block in BLOCKS
        for command in commands(block)
        if command.program == OURS and not (runs and command.text in NOT_RUN)
    ]


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


def parsed(words: tuple[str, ...]) -> tuple[str, Mapping[str, Any]]:
    """Return the path and the parameters of a command line; a usage error for a wrong one."""
    command = command_line()
    context = command.make_context(OURS, list(words))
    path = []
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        path.append(name)
    return " ".join(path), context.params


def is_quick(block: Block) -> bool:
    runs = [command for command in commands(block) if command.text not in NOT_RUN]
    mine = [command for command in runs if command.program == OURS]
    return all(
        any(" ".join(command.words[1:]).startswith(name) for name in QUICK) for command in mine
    ) and all(command.program != "curl" for command in runs)


@pytest.mark.parametrize("command", ours(runs=False), ids=lambda command: command.block.place)
def test_a_command_is_one_of_the_command_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, params = parsed(command.words[1:])
    assert path
    assert params


def test_the_tables_name_commands_of_the_pages() -> None:
    texts = {command.text for block in BLOCKS for command in commands(block)}
    for table in (NOT_RUN, ANSWERS, INPUT, BEFORE, INSTEAD):
        assert sorted(set(table) - texts) == []
    pages = {block.page for block in BLOCKS}
    assert sorted(set(PAGE) - pages) == []
    programs = {command.program for block in BLOCKS for command in commands(block)}
    assert sorted(set(OTHER_PROGRAMS) - programs) == []


def test_every_program_is_checked_or_of_others() -> None:
    known = {OURS, "curl", "make", "python", *OTHER_PROGRAMS}
    every = [command for block in BLOCKS for command in commands(block)]
    assert [one.block.place for one in every if one.program not in known] == []


@pytest.mark.parametrize("wrong", ["refine x --rounnds 3", "evaluate x", "eval rum x.toml"])
def test_a_wrong_command_is_found(wrong: str) -> None:
    with pytest.raises(Exception, match=r"No such (option|command)") as caught:
        parsed(tuple(wrong.split()))
    assert "UsageError" in {kind.__name__ for kind in type(caught.value).__mro__}


def test_targets_of_make_modules_and_extras_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seen = set()
    for command in (command for block in BLOCKS for command in commands(block)):
        match command.program, command.words[1:]:
            case "make", (target, *_):
                assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), command
            case "python", ("-m", module, *_):
                assert module in OTHER_MODULES or importlib.util.find_spec(module), command
            case "pip", ("install", what, *_):
                for extra in re.findall(r"\[(.*)\]", what):
                    assert set(extra.split(",")) <= set(project["optional-dependencies"]), command
            case _:
                continue
        seen.add(command.program)
    assert seen == {"make", "python", "pip"}
    modules = {command.words[2] for block in BLOCKS for command in commands(block)
               if command.words[:2] == ("python", "-m")}  # fmt: skip
    assert modules >= OTHER_MODULES


INLINE = [
    (page.name, code)
    for page in PAGES
    for code in re.findall(r"(?<!`)`(scenewright [^`\n]+)`(?!`)", page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "code"), sorted(set(INLINE)))
def test_a_command_in_a_sentence_exists(page: str, code: str) -> None:
    command = command_line()
    words = [word for word in code.split()[1:] if word != "--help"]
    while words and hasattr(command, "commands"):
        command = command.commands.get(words.pop(0))
        assert command is not None, f"{page}: {code}"
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    named = {word.strip("[]…") for word in words if word.startswith(("-", "[-"))}
    assert named <= options, f"{page}: {code}"


def run(command: Command) -> Result:
    """Run a command as a shell would, in the working folder."""
    BEFORE.get(command.text, lambda: None)()
    words = [each for word in command.words[1:] for each in expanded(FILLED.get(word, str)(word))]
    words += ANSWERS.get(command.text, ())
    done = CliRunner().invoke(
        app, words, input=INPUT.get(command.text), env=dict(command.variables)
    )
    if command.stdout is not None:
        Path(command.stdout).write_text(done.stdout, encoding="utf-8")
    return done


def is_scored(folder: Path) -> bool:
    """Whether the kept picture of a run has SGScores of the loop's and of the report's judges."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    kept = result["rounds"][result["best_round"] - result["first_round"]]
    return all(kept[f"{role}_card"]["intervals"]["sgscore"] for role in ("loop", "report"))


def check(command: Command, done: Result, began: float) -> None:
    """Assert what a command of the pages does."""
    where = f"{command.block.place}: {command.text}\n{done.output}"
    path, params = parsed(tuple(each for word in command.words[1:] for each in expanded(word)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(where) from done.exception
    assert not re.search(r"^ *score +–", done.output, re.MULTILINE), where
    plans = not {"--plan", "--dry-run"}.isdisjoint(command.words)
    codes = {0, *MEASURED.get(path, ())} if not plans else {0}
    assert done.exit_code in codes, where
    assert done.stdout.strip(), where
    if plans:
        return
    for name in ("out", "html", "csv", "save", "show"):
        if isinstance(value := params.get(name), (str, Path)):
            assert Path(value).exists(), where
    if path in ("refine", "edit"):
        (folder,) = (
            file.parent for file in Path("runs").glob("*/result.json")
            if file.stat().st_mtime >= began
        )  # fmt: skip
        assert is_scored(folder), where
        assert (folder / "index.html").is_file(), where
    elif path == "score":
        assert re.search(r"^ *score +[01]\.\d\d", done.stdout, re.MULTILINE), where
    elif path == "open":
        assert Path(done.stdout.strip()).is_file(), where
    elif path == "eval run":
        folder = Path(params["out"] or f"evals/{params['config'].stem}")
        scores = Results(folder).rows("scores")
        assert any(isinstance(row["value"], float) for row in scores), where
    elif path == "eval report":
        assert (Path(params["out"] or params["folder"] / "report") / "index.html").is_file(), where
    elif path == "gate":
        assert re.search(r": \d\.\d+ → \d\.\d+", done.output), where


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[] if is_quick(block) else [pytest.mark.slow], id=block.place)
        for block in BLOCKS
        if any(one.program == OURS and one.text not in NOT_RUN for one in commands(block))
    ],
)
def test_commands_of_a_block_do_what_the_page_says(
    block: Block,
    mock: ThreadedMockProviders,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = request.getfixturevalue("furnished" if is_quick(block) else "evaluated")
    folder = tmp_path / "place"
    shutil.copytree(source, folder)
    point_at(mock, folder, monkeypatch)
    with bounded():
        PAGE.get(block.page, lambda: None)()
        for command in commands(block):
            if (instead := INSTEAD.get(command.text)) is not None:
                instead()
            elif command.program == OURS and command.text not in NOT_RUN:
                began = time.time()
                check(command, run(command), began)


@dataclass(frozen=True)
class Request:
    """What a line of curl sends."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str | None

    @classmethod
    def of(cls, command: Command) -> Request:
        """Read a line of curl; an option that it does not know is an error."""
        reader = argparse.ArgumentParser(exit_on_error=False)
        reader.add_argument("url")
        reader.add_argument("-H", action="append", default=[])
        reader.add_argument("-d")
        reader.add_argument("-X")
        reader.add_argument("-N", action="store_true")
        said = reader.parse_args(command.words[1:])
        headers = dict(re.split(r":\s*", line, maxsplit=1) for line in said.H)
        return cls(said.X or ("GET" if said.d is None else "POST"), said.url, headers, said.d)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if any(one.program == "curl" for one in commands(block))],
    ids=str,
)
def test_curl_sends_what_is_answered(block: Block, tmp_path: Path) -> None:
    service = create_app(ServiceSettings(data=tmp_path / "data"))
    with (
        bounded(),
        serving_thread(MOCK) as mock,
        threaded(service) as url,
        httpx2.Client(timeout=60) as client,
    ):
        run_id = ""
        for command in commands(block):
            if command.program != "curl":
                continue
            request = Request.of(command)
            address = request.url.replace("http://127.0.0.1:8765", mock.url)
            address = address.replace("http://127.0.0.1:8642", url).replace("RUN", run_id)
            assert address != request.url
            reply = client.request(
                request.method, address, headers=request.headers, content=request.body
            )
            assert reply.is_success, f"{command.block.place}: {reply.text}"
            if request.url.endswith("/v1/refinements"):
                run_id = reply.json()["id"]
                # The events end with the run.
                client.get(f"{url}/v1/refinements/{run_id}/events")
                made = client.get(f"{url}/v1/refinements/{run_id}").json()
                assert (made["status"], made["warnings"]) == ("finished", []), made
                scores = [made["summary"][f"{role}_score"] for role in ("loop", "report")]
                assert all(isinstance(score, float) for score in scores), made
            elif request.url.endswith("/events"):
                assert "event: finished" in reply.text
            else:
                assert reply.json(), reply.text
