"""Draw the gallery of the documentation: real runs of the miniature, failures included.

``make gallery``. The scenes are those of ``scenewright demo``, and the first two of each level of
the data set ``miniature``; the seed is 0 and the options are the defaults, so that of the latter
nothing is chosen by its result. Pictures and ``gallery.json`` go to ``docs/images/gallery``; the
section of ``docs/gallery.md`` is written from the latter, and a test holds it equal to that.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks._pages import fill_section
from scenewright import RunResult, load_scene, refine
from scenewright.cli.demo import SCENES as DEMO
from scenewright.core.facts import Fact, ScoreCard
from scenewright.core.scene import SceneGraph
from scenewright.core.version import VERSION
from scenewright.evals.datasets.miniature_scenes import load
from scenewright.runs.report import words

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"
IMAGES = ROOT / "docs" / "images" / "gallery"
SECTION = "gallery"
LEVELS = ("simple", "medium", "hard", "very_hard", "adversarial")
EACH = 2
SEED = 0
ROUNDS = 3
SIDE = 256
"""Pixels of a picture on the page: twice those that the miniature draws."""


OUTCOMES = (
    "complete at once",
    "repaired",
    "improved",
    "no difference",
    "the judges disagree",
    "not repaired",
    "worse",
    "not judged",
)
"""What the loop did to a scene, best first."""


def scenes() -> list[tuple[str, SceneGraph]]:
    """Return the level and scene of each run: those of the demo, then level by level."""
    demo = [(f"demo_{level}", load_scene(text)) for level, text in DEMO.items()]
    items = list(load(n=EACH * len(LEVELS), levels=LEVELS))
    found = [
        (level, item.scene)
        for at, level in enumerate(LEVELS)
        for item in items[at :: len(LEVELS)]
        if item.scene is not None
    ]
    return demo + found


def card_row(card: ScoreCard | None, facts: Sequence[Fact]) -> dict[str, Any] | None:
    """Return what the page says of a card: its line, score and the facts that do not hold."""
    if card is None:
        return None
    statements = {fact.id: fact.statement for fact in facts}
    return {
        "line": words.verdict_line(card),
        "sgscore": card.sgscore,
        "missing": [statements[v.fact_id] for v in card.verdicts if v.state == "no"],
        "void": sum(v.state == "void" for v in card.verdicts),
    }


def save(result: RunResult, image: str, name: str) -> str:
    """Write a picture of the run as ``name`` and return its file's name."""
    with Image.open(result.image_path(image)) as picture:
        large = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.NEAREST)
    large.save(IMAGES / f"{name}.webp", quality=80, method=6)
    return f"{name}.webp"


async def draw(out: Path) -> list[dict[str, Any]]:
    """Run every scene, write its first and its kept picture, and return the rows of the page."""
    rows = []
    for number, (level, scene) in enumerate(scenes(), start=1):
        result = await refine(scene, "miniature", rounds=ROUNDS, seed=SEED, out=out / str(number))
        first, kept = result.rounds[0], result.best
        if kept is None:
            raise SystemExit(f"scene {number} was not judged: {result.stop_reason}")
        rows.append(
            {
                "level": level,
                "scene": words.scene_words(scene, 10_000),
                "stop": result.stop_reason,
                "rounds": len(result.rounds),
                "images": int(result.totals["images"]),
                "kept": kept.round,
                "pictures": [
                    save(result, record.image, f"{number:02}-{part}")
                    for part, record in (("first", first), ("kept", kept))
                    if part == "first" or record is not first
                ],
                "loop": [card_row(one.loop_card, result.facts) for one in (first, kept)],
                "report": [card_row(one.report_card, result.facts) for one in (first, kept)],
            }
        )
        print(f"{number:2} {level:12} {rows[-1]['report'][-1]}", flush=True)
    return rows


def outcome(row: dict[str, Any]) -> str:
    """Say in words what the loop did to a scene, by the judges of the report."""
    first, kept = row["report"]
    if first is None or kept is None or None in (first["sgscore"], kept["sgscore"]):
        return "not judged"
    if row["kept"] == 0:
        if bool(row["loop"][0]["missing"]) != bool(first["missing"]):
            return "the judges disagree"
        return "not repaired" if first["missing"] else "complete at once"
    if first["sgscore"] == kept["sgscore"]:
        return "no difference"
    if kept["sgscore"] < first["sgscore"]:
        return "worse"
    return "improved" if kept["missing"] else "repaired"


def section(version: str, rows: list[dict[str, Any]]) -> str:
    """Return the generated part of the page."""
    demo = [row for row in rows if row["level"].startswith("demo_")]
    others = [row for row in rows if row not in demo]
    outcomes = [outcome(row) for row in others]
    counts = "; ".join(f"{outcomes.count(o)} {o}" for o in OUTCOMES if o in outcomes)
    holds = sum(row["report"][1] is not None and not row["report"][1]["missing"] for row in others)
    parts = [
        f"Drawn with version {version}.",
        "## The scenes of the demo",
        "`scenewright demo` draws these, which were chosen.",
        *map(run_text, demo),
        "## The first scenes of each level",
        f"Nobody chose these. Of {len(others)} runs: {counts}. By the judges of the report, "
        f"{holds} of {len(others)} kept pictures hold every fact.",
        *map(run_text, others),
    ]
    return "\n\n".join(parts)


def run_text(row: dict[str, Any]) -> str:
    """Return the part of the page on one run."""
    level = row["level"].removeprefix("demo_").replace("_", " ").capitalize()
    shown = ["first picture", f"kept: round {row['kept']} of 0–{row['rounds'] - 1}"]
    pictures = [
        f"![{title}](images/gallery/{file})"
        for title, file in zip(shown, row["pictures"], strict=False)
    ]
    judged = [verdict_cell(row, at) for at in range(len(pictures))]
    table = (shown[: len(pictures)], ["---"] * len(pictures), pictures, judged)
    return "\n\n".join(
        (
            f"### {level}: {outcome(row)}",
            f"*{row['scene']}*",
            "\n".join(f"| {' | '.join(cells)} |" for cells in table),
            f"{words.count(row['images'], 'image')} drawn, references included; "
            f"stopped: {words.REASONS[row['stop']]}.",
        )
    )


def verdict_cell(row: dict[str, Any], at: int) -> str:
    """Return what both panels say of a picture."""
    found = []
    for name, role in (("loop", "the loop's judges"), ("report", "the report's judges")):
        card = row[name][at]
        if card is not None:
            missing = f"; missing: {', '.join(card['missing'])}" if card["missing"] else ""
            void = f"; {card['void']} facts about what is missing" if card["void"] else ""
            found.append(f"{role}: {card['line']}{missing}{void}")
    return "<br>".join(found)


def main() -> None:
    """Draw, and write the page."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for old in IMAGES.glob("*.webp"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(draw(Path(folder)))
    text = json.dumps({"version": VERSION, "runs": rows}, indent=1, ensure_ascii=False)
    (IMAGES / "gallery.json").write_text(text + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill_section(page, SECTION, section(VERSION, rows)), encoding="utf-8")
    print(f"written to {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
