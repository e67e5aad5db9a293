"""The files of a study: Markdown, CSV, JSON and a plot; and the index of all of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.studies import plots
from scenewright.evals.studies.claims import VERDICTS, Claim
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.layout import as_csv
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import Outcome, StudyDefinition

INDEX = "index.md"
_FORMAT = 1


def write_study(
    folder: Path,
    study: StudyDefinition,
    outcome: Outcome,
    setup: Setup,
    contexts: Sequence[Context],
) -> tuple[Path, ...]:
    """Write ``study``'s four files into ``folder``, each whole or not at all.

    Raises ``EvalError`` if the folder cannot be written.
    """
    stem = folder / study.file
    paper = study.paper()
    data = {
        "format": _FORMAT,
        "study": study.name,
        "number": study.number,
        "title": study.title,
        "profile": setup.profile,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "paper": {"name": paper.paper, "mark": paper.mark},
        "evaluations": [context.model_dump(mode="json") for context in contexts],
        "tables": [table.model_dump(mode="json") for table in outcome.tables],
        "claims": [_claim(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        **({"data": dict(outcome.data)} if outcome.data else {}),
    }
    texts = {
        ".md": _markdown(study, outcome, setup, contexts),
        ".csv": as_csv(outcome.tables),
        ".json": json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    }
    files = []
    for ending, text in texts.items():
        file = stem.with_name(stem.name + ending)
        _whole(file, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        files.append(file)
    picture = stem.with_name(stem.name + ".svg")
    figure = outcome.plot()
    _whole(picture, lambda draft: plots.save(figure, draft, f"{study.number}: {study.title}"))
    return (*files, picture)


def write_index(folder: Path) -> Path:
    """Write ``index.md`` of all studies whose files lie in ``folder``, those of earlier calls too.

    Raises ``EvalError`` if a file there cannot be read, or the index cannot be written.
    """
    found = _studies(folder)
    counts = dict.fromkeys(VERDICTS, 0)
    lines = []
    for data in found:
        lines += ["", f"## {data['number']}: {data['title']}", ""]
        file = data["file"]
        lines.append(f"[Table]({file}.md), [CSV]({file}.csv), [JSON]({file}.json)")
        lines += ["", f"![{data['number']}]({file}.svg)", ""]
        by = sorted(data["claims"], key=lambda claim: list(VERDICTS).index(claim["verdict"]))
        for claim in by:
            counts[claim["verdict"]] += 1
            lines.append(f"- {claim['sentence']}")
    total = sum(counts.values())
    profiles = sorted({data["profile"] for data in found})
    papers = dict.fromkeys(f"*{d['paper']['name']}* ({d['paper']['mark']})" for d in found)
    head = [
        "# The studies",
        "",
        f"Measured on the profile {', '.join(profiles)}. Figures of papers here are those of "
        f"{'; '.join(papers)}. Heights cannot be compared with them; directions can.",
        "",
        _summary(counts, total),
        "",
        "A statement about a direction *agrees* if the 95 % interval of the measured difference "
        "lies wholly on the paper's side of 0, *disagrees* if it lies wholly on the other side, "
        "and is *open* otherwise, as it is where there is no interval. One that something hardly "
        "changes is held against a margin in the same way. Fewer than ten items, or items that are "
        "all alike, decide nothing. Intervals are over scenes and are not widened for the number "
        "of statements. This page is written from the numbers.",
    ]
    target = folder / INDEX
    text = "\n".join([*head, *lines]) + "\n"
    _whole(target, lambda draft: draft.write_text(text, encoding="utf-8"))
    return target


def _summary(counts: Mapping[Any, int], total: int) -> str:
    said = {
        "agrees": "agree in direction",
        "disagrees": "disagree",
        "open": "are open (the interval decides nothing, or there is none)",
        "not measured": "were not measured",
    }
    parts = [f"{counts[name]} {words}" for name, words in said.items() if counts[name]]
    return f"Of {total} comparisons with the papers, {', '.join(parts) or 'none was tried'}."


def _studies(folder: Path) -> list[dict[str, Any]]:
    from scenewright.evals.studies.registry import STUDIES

    found = []
    for study in STUDIES.values():
        file = folder / f"{study.file}.json"
        if not file.exists():
            continue
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']}")
            found.append({**data, "file": study.file})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EvalError(
                f"{file} is no result of a study ({error}): delete it, or run the study again"
            ) from error
    return found


def _claim(claim: Claim) -> dict[str, Any]:
    said = claim.model_dump(mode="json")
    return {**said, "verdict": claim.verdict, "sentence": claim.sentence()}


def _markdown(
    study: StudyDefinition, outcome: Outcome, setup: Setup, contexts: Sequence[Context]
) -> str:
    lines = [f"# {study.number}: {study.title}", ""]
    lines += [f"Profile `{setup.profile}`. " + " ".join(c.sentence() for c in contexts), ""]
    said = "Measured figures stand first: mean ± standard deviation over seeds [95 % interval over"
    lines.append(f"{said} scenes]. Figures after *paper* are {study.paper().mark}.")
    for table in outcome.tables:
        lines += ["", f"## {table.title}", "", table.markdown()]
    lines += ["", f"![{study.number}]({study.file}.svg)"]
    if outcome.notes:
        lines += ["", "## To be known", "", *(f"- {note}" for note in outcome.notes)]
    if outcome.claims:
        lines += ["", "## Against the paper", ""]
        lines += [f"- {claim.sentence()}" for claim in outcome.claims]
    return "\n".join(lines) + "\n"


def _whole(file: Path, write: Callable[[Path], object]) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(draft)
        os.replace(draft, file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise EvalError(
            f"{file} cannot be written: {error.strerror or error}. Name another folder with --out; "
            "what was drawn is kept"
        ) from error
