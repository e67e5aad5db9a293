"""The Python blocks of the pages and the programs of ``examples`` run, and do what is promised."""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import re
import runpy
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from PIL import Image

from scenewright.core.formats import load_scene
from scenewright.core.images import load_image
from scenewright.core.ports.vision import Detection
from scenewright.evals.human_ratings.rated_objects import read_objects
from scenewright.evals.metrics.base import MetricScore
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.runs.model_factory.profiles import build_chat, build_judge
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.evals.studies.olip.rated_sets import write_rated
from tests.release.docs_blocks import ROOT, Block, all_blocks, blocks, entry, has_line, run_source
from tests.release.docs_place import SCENE, SCHEMA, bounded, point_at
from tests.service.threaded import threaded
from tests.tools.vision.realism.blips import save_tiny_blip

BLOCKS = all_blocks("python")
SERVICE = "http://127.0.0.1:8642"
"""The address of the service on the pages."""
Names = dict[str, Any]


def judged(out: str) -> bool:
    """Return whether what was printed has a score and no value that is missing."""
    return bool(re.search(r"\b[01]\.\d|\b1\b", out)) and not re.search(r"\bNone\b|\bnan\b|–", out)


def nothing(service: str) -> Names:
    return {}


def a_client(service: str) -> Names:
    return {"client": openai.OpenAI(base_url=f"{service}/v1", api_key="none")}


def a_picture(service: str) -> Names:
    return {"image": load_image("painted.png")}


def a_scene(service: str) -> Names:
    return {"scene": load_scene(SCENE), "wants_to_look": lambda: True}


def a_rating_model(service: str) -> Names:
    write_rated(Path("rated"))
    return {
        "chat": build_chat("openai:gpt-6-luna"),
        "training": read_objects("rated"),
        "image": load_image("painted.png"),
        "detections": [Detection("ball", (52, 36, 78, 62)), Detection("table", (40, 60, 100, 110))],
    }


def rated_objects(service: str) -> Names:
    write_rated(Path("rated"))
    save_tiny_blip(Path("blip"))
    return {}


def a_class(service: str) -> Names:
    Path("birds.json").write_text(
        json.dumps(tomllib.loads(SCHEMA.replace('name = "dog"', 'name = "owl"'))), encoding="utf-8"
    )
    return {
        "judges": [build_judge("local:miniature/judge-a")],
        "path": "answers.db",
        "file": Path("generated/dog/a.png"),
        "out": Path("rows.jsonl"),
    }


def answers(service: str) -> Names:
    table, *_ = blocks(ROOT / "docs/panel-studies.md", "csv")
    Path("answers.csv").write_text(table.text, encoding="utf-8")
    return {}


def a_study(service: str) -> Names:
    Path("mine.toml").write_text(
        'name = "mine"\nparts = ["power"]\nresamples = 100\n'
        '[source]\nkind = "painted"\npaintings = 3\njudges = ["local:miniature/judge-a"]\n',
        encoding="utf-8",
    )
    return {}


def xtc(service: str) -> Names:
    config, *_ = blocks(ROOT / "docs/xtc.md", "toml")
    Path("xtc.toml").write_text(config.text.replace("n = 20", "n = 2"), encoding="utf-8")
    return {}


def prints_its_comments(block: Block, names: Names, out: str) -> None:
    promised = re.findall(r"(?:^|  )# (.*)$", block.text, re.MULTILINE)
    assert out.splitlines() == promised
    assert promised


def prints_the_next_block(block: Block, names: Names, out: str) -> None:
    after = [one for one in blocks(ROOT / block.page) if one.line > block.line]
    assert after[0].language == "text"
    assert out == after[0].text


def prints_scores(block: Block, names: Names, out: str) -> None:
    assert judged(out), out


def finds_objects(block: Block, names: Names, out: str) -> None:
    assert {"ball", "table", "dog"} <= {thing.name for thing in names["found"].scene.objects}


def measures_brightness(block: Block, names: Names, out: str) -> None:
    class Sample:
        load = staticmethod(lambda: Image.new("RGB", (8, 8), (90, 120, 60)))

    score = asyncio.run(names["make"]({}).score(Sample()))
    assert isinstance(score, MetricScore)
    assert 0.0 < (score.value or 0.0) < 1.0


def reads_the_caption(block: Block, names: Names, out: str) -> None:
    intent = names["scene"].intent
    assert [str(one) for one in intent.globals]
    assert intent.exclusions
    assert intent.counts
    assert not intent.unread
    assert names["scene"].sentence.startswith("An oil painting of two dogs")


def continues_the_run(block: Block, names: Names, out: str) -> None:
    result = names["result"]
    assert isinstance(result.loop_card.sgscore, float)
    assert result.image.is_file()


def answers_in_words(block: Block, names: Names, out: str) -> None:
    assert names["said"].text
    assert names["spent"].usd > 0


def calls_the_tool(block: Block, names: Names, out: str) -> None:
    (called,) = names["said"].tool_calls
    assert (called["name"], called["args"]) == ("look", {"where": "the sky"})


def reads_the_sentence(block: Block, names: Names, out: str) -> None:
    assert {thing.name for thing in names["scene"].objects} == {"dog", "ball"}


def compares(block: Block, names: Names, out: str) -> None:
    assert len(re.findall(r"^new:miniature/triplets \S+ 0\.0 ", out, re.MULTILINE)) >= 1, out


def counts_its_request(block: Block, names: Names, out: str) -> None:
    assert re.match(r"a red ball \{'requests': 1, ", out), out


def reads_every_shape(block: Block, names: Names, out: str) -> None:
    assert len(re.findall(r"^\S+ .*a red ball", out, re.MULTILINE)) > 3, out


def simulates(block: Block, names: Names, out: str) -> None:
    assert names["table"].images


def has_scores(block: Block, names: Names, out: str) -> None:
    assert any(isinstance(row["value"], float) for row in names["results"].rows("scores"))


def has_rows(name: str) -> Callable[[Block, Names, str], None]:
    def check(block: Block, names: Names, out: str) -> None:
        assert len(names[name]) > 0, name

    return check


def scores_the_picture(block: Block, names: Names, out: str) -> None:
    assert [row.s_att for row in names["rows"]] == [pytest.approx(1.0, abs=0.2)]


def writes(file: str) -> Callable[[Block, Names, str], None]:
    def check(block: Block, names: Names, out: str) -> None:
        assert Path(file).stat().st_size > 0

    return check


def no_value_is_missing(block: Block, names: Names, out: str) -> None:
    assert not re.search(r"\bNone\b|\bnan\b|–", out), out


@dataclass(frozen=True)
class Case:
    """What a block takes as given, and what is checked when it has run."""

    check: Callable[[Block, Names, str], None] = no_value_is_missing
    setup: Callable[[str], Names] = nothing
    """Makes its names in its folder, from the address of the service."""
    evaluated: bool = False
    """Whether it reads finished evaluations."""
    quick: bool = False
    """Whether it takes neither models nor files; others are slow."""
    not_run: str = ""
    """Why it is not run."""


WEIGHTS = Case(not_run="needs weights of the hub")
CASES: Mapping[str, Case] = {
    "README.md: asyncio.run(main())": Case(prints_scores),
    "docs/api-models.md: from scenewright.providers.usage import metered": Case(answers_in_words),
    "docs/api.md: asyncio.run(main())": Case(prints_scores),
    "docs/evaluating.md: from scenewright.evals.store.results import Results": Case(
        has_rows("scores"), evaluated=True
    ),
    "docs/evaluating.md: from scenewright.evals.runner.runner import run_eval": Case(has_scores),
    "docs/evaluating.md: def test_the_lora_costs_no_facts(assert_not_worse):": Case(
        not_run="tests/evals/gate"
    ),
    "docs/evaluating.md: from scenewright.evals.gate.asserting import assert_not_worse": Case(
        not_run="tests/evals/gate: ends with a decision only after 84 scenes"
    ),
    "docs/evaluating.md: def mine() -> Task:": Case(
        not_run="inspect_ai has an environment of its own"
    ),
    "docs/get-started.md: asyncio.run(main())": Case(prints_scores),
    'docs/graphs.md: extractor = extractor_of("miniature")': Case(finds_objects, a_picture),
    "docs/graphs.md: detector = detector_of(": WEIGHTS,
    "docs/graphs.md: score = psg_score(asked, seen)": Case(prints_its_comments, quick=True),
    'docs/integrations.md: run = reply.scenewright["runs"][0]': Case(prints_scores),
    "docs/integrations.md: reply = client.images.edit(": Case(prints_scores, a_client),
    "docs/local-models.md: backend = DiffusersBackend(": WEIGHTS,
    'docs/local-models.md: sdxl.count("a red dog …")': WEIGHTS,
    "docs/metrics.md: class Brightness:": Case(measures_brightness, quick=True),
    "docs/mock-providers.md: def look(where: str) -> str:": Case(calls_the_tool),
    "docs/mock-providers.md: from scenewright.mock_providers.wild import SHAPES": Case(
        reads_every_shape
    ),
    "docs/mock-providers.md: from openai import AsyncOpenAI": Case(counts_its_request),
    "docs/panel-studies.md: from scenewright.evals.studies.panel.sources.tables import "
    "load_table, write_table": Case(writes("answers.parquet"), answers),
    "docs/panel-studies.md: from scenewright.evals.studies.panel.study import load_study": Case(
        writes("studies/mine/index.html"), a_study
    ),
    "docs/panel-studies.md: images_by_rates(0.80, 0.85, sensitivity=0.9, specificity=0.7, "
    "facts=8, agreement=0.1)": Case(quick=True),
    "docs/panel-studies.md: from PIL import Image": Case(writes("worse.png")),
    "docs/panel-studies.md: table = simulate(spec)": Case(simulates, quick=True),
    "docs/panel.md: weights = agreement_weights(said)": Case(has_rows("likely"), quick=True),
    'docs/panel.md: table = load_dsg_release(Path("dsg"))': Case(not_run="needs DSG's release"),
    "docs/real.md: scorer = RealScorer(judges, AnswerStore(path))": Case(
        scores_the_picture, a_class
    ),
    'docs/real.md: best = select(rows, 1, "high")': Case(has_rows("best"), quick=True),
    "docs/real.md: found = compare_classifiers(": WEIGHTS,
    "docs/realism.md: scores = await scorer.score(image, detections)": Case(
        has_rows("scores"), a_rating_model
    ),
    "docs/realism.md: from scenewright.tools.vision.realism.olip import OlipConfig": Case(
        setup=rated_objects
    ),
    "docs/reports.md: from scenewright.evals.reporting.report import build_report": Case(
        compares, evaluated=True
    ),
    "docs/runs.md: from scenewright import Edit, execute, plan_again, refine": Case(
        continues_the_run, a_scene
    ),
    "docs/runs.md: from psycopg_pool import AsyncConnectionPool": Case(not_run="needs PostgreSQL"),
    "docs/scenes.md: from scenewright.agents.parsers.rules import parse_caption": Case(
        reads_the_caption, quick=True
    ),
    "docs/scenes.md: from scenewright.agents.parsers.language import LanguageParser": Case(
        reads_the_sentence
    ),
    "docs/strategies.md: class Twice:": Case(quick=True),
    "docs/xtc.md: from scenewright.evals.studies.xtc.running import run_xtc": Case(setup=xtc),
    "docs/xtc.md: sheet = questions_of(scene)": Case(prints_the_next_block, quick=True),
    "docs/xtc.md: print(match.mapping)  # {'dog.1': 'b', 'dog.2': 'a'}": Case(
        prints_its_comments, quick=True
    ),
}
"""Block, as its page and one whole line of it → its case. A block without one is run too."""


@pytest.fixture(scope="module")
def service(mock: ThreadedMockProviders, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with the models of the package."""
    with threaded(create_app(ServiceSettings(data=tmp_path_factory.mktemp("service")))) as url:
        yield url


def case_of(block: Block) -> Case:
    return entry(CASES, block) or Case()


def test_each_case_is_of_one_block() -> None:
    for key in CASES:
        assert len([block for block in BLOCKS if has_line(block, key)]) == 1, key
    for block in BLOCKS:
        assert len([key for key in CASES if has_line(block, key)]) <= 1, block.place


@pytest.mark.parametrize("block", [b for b in BLOCKS if case_of(b).not_run], ids=str)
def test_a_block_that_is_not_run_imports_what_exists(block: Block) -> None:
    code = compile(
        block.text, block.place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    for node in ast.walk(code):
        module = getattr(node, "module", None) or ""
        # The bridge to inspect_ai needs the extra `inspect`.
        if module.startswith("scenewright") and module != "scenewright.evals.inspect_ai":
            found = importlib.import_module(module)
            assert [alias.name for alias in node.names if not hasattr(found, alias.name)] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if case_of(b).quick], ids=str)
def test_a_block_without_models_does_what_the_page_says(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run(block, SERVICE, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.place)
        for block in BLOCKS
        for case in [case_of(block)]
        if not (case.quick or case.not_run)
    ],
)
def test_a_block_does_what_the_page_says(
    block: Block,
    mock: ThreadedMockProviders,
    furnished: Path,
    service: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "place"
    evaluated = case_of(block).evaluated
    shutil.copytree(request.getfixturevalue("evaluated") if evaluated else furnished, folder)
    point_at(mock, folder, monkeypatch)
    run(block, service, capsys)


def run(block: Block, service: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a block in the working folder, with the service at its own address, and check it."""
    case = case_of(block)
    with bounded():
        names: Names = {"__name__": "__main__"} | case.setup(service)
        capsys.readouterr()
        text = block.text.replace(SERVICE, service)
        if (awaiting := run_source(text, block.place, names)) is not None:
            asyncio.run(awaiting)
        case.check(block, names, capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "files"),
    [
        ("openai_images", ("A red ball is on a table.",), ("kept.png", "round-0.png")),
        ("openai_images", ("A red ball is on a table.", "table.png"), ("kept.png",)),
        ("automatic1111", ("a red ball on a table", "2"), ("*.png", "*.png")),
    ],
)
def test_an_example_draws_with_the_service(
    program: str,
    words: tuple[str, ...],
    files: tuple[str, ...],
    furnished: Path,
    service: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(furnished / "table.png", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCENEWRIGHT_URL", service)
    monkeypatch.setattr("sys.argv", [f"{program}.py", *words])
    with bounded():
        runpy.run_path(str(ROOT / "examples" / f"{program}.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert judged(out), out
    assert re.search(r"SGScore [01]\.\d", out), out
    found = {file: sorted(set(Path().glob(file)) - {Path("table.png")}) for file in files}
    assert all(len(found[file]) >= files.count(file) for file in files), found
