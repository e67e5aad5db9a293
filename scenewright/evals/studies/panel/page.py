"""The page of a study, as HTML in one file and as Markdown, and its numbers as JSON."""

from __future__ import annotations

import base64
import functools
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scenewright.core.flushing import write_text
from scenewright.evals.reporting.pages import asset
from scenewright.evals.reporting.words import whole
from scenewright.evals.statistics.estimates import number
from scenewright.evals.studies.panel.running import TABLE, Outcome, PanelStudyRun, digest_of, plain
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.runs.folder import installed_versions, write_json
from scenewright.runs.report.words import duration

PAGE, MARKDOWN, NUMBERS = "index.html", "index.md", "study.json"
_FORMAT = 1
_PACKAGE = "scenewright.evals.studies.panel"
_SIZE = re.compile(rb'viewBox="0 0 ([\d.]+) [\d.]+"')
_PIXELS = 1.6
"""Pixels for a point of a plot, at most."""
_WIDE = 580.0
"""Points; a wider plot takes the width of the page."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The page loads nothing: style and plots are embedded."""


def write_study(study: PanelStudyRun) -> Path:
    """Write ``index.html``, ``index.md`` and ``study.json`` into the study's folder.

    Each is written whole or not at all. Returns the page's path. Raises ``PanelStudyError`` if that
    fails.
    """
    try:
        write_json(study.folder / NUMBERS, numbers(study))
        write_text(study.folder / MARKDOWN, markdown(study))
        write_text(study.folder / PAGE, page(study))
    except OSError as error:
        raise PanelStudyError(
            f"{study.folder} cannot be written: {error.strerror or error}. Name another folder "
            "with --out"
        ) from error
    return study.folder / PAGE


def numbers(study: PanelStudyRun) -> dict[str, Any]:
    """All that a program may want of a study."""
    table = study.loaded.table
    return {
        "format": _FORMAT,
        "name": study.config.name,
        "answer": study.answer,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "config": study.config.model_dump(mode="json"),
        "table": {
            "name": table.name,
            "about": study.loaded.about,
            "digest": study.digests[0],
            "learn": study.digests[1],
            "judges": [
                {"id": j.id, "family": j.family, "fingerprint": j.fingerprint} for j in table.judges
            ],
            "loop_judges": list(study.loop_judges),
            **counts(table),
            "notes": list(study.loaded.notes),
        },
        "versions": dict(installed_versions()),
        "parts": {
            one.name: plain(
                {
                    "state": one.state,
                    "reason": one.reason,
                    "options": one.options,
                    "findings": list(one.findings),
                    "figures": one.figures,
                    "notes": list(one.notes),
                    "seconds": one.seconds,
                }
            )
            for one in study.outcomes
        },
    }


def counts(table: AnswerTable) -> dict[str, int]:
    """How much there is of everything."""
    return {
        "images": len(table.images),
        "items": table.n_items,
        "models": len({image.model for image in table.images} - {""}),
        "facts": len(table.facts),
        "answers": int((~np.isnan(table.said)).sum()),
        "unscored": int((np.isnan(table.said) & table.asked).sum()),
        "facts_with_truth": int((~np.isnan(table.truth)).sum()),
        "facts_that_hold": int((table.truth == 1.0).sum()),
        "images_with_ratings": int((~np.isnan(table.ratings)).sum()),
        "ratings": sum(len(image.ratings) for image in table.images),
        "rounds": len({image.round for image in table.images} - {None}),
    }


def judge_lines(study: PanelStudyRun) -> list[dict[str, Any]]:
    """Return one row a judge, in the table's order.

    ``answers`` are usable ones, ``unscored`` were asked for and cannot be used; ``yes`` is the
    share of yes among its votes, ``right`` that of right votes on facts of known truth.
    """
    table = study.loaded.table
    known = ~np.isnan(table.truth)
    found = []
    for at, judge in enumerate(table.judges):
        votes, there = table.votes[:, at], ~np.isnan(table.said[:, at])
        both = there & known
        found.append(
            {
                "id": judge.id,
                "family": judge.family,
                "steers": judge.id in study.loop_judges,
                "answers": int(there.sum()),
                "unscored": int((table.asked[:, at] & ~there).sum()),
                "yes": float(votes[there].mean()) if there.any() else None,
                "right": float((votes == table.truth)[both].mean()) if both.any() else None,
            }
        )
    return found


def markdown(study: PanelStudyRun) -> str:
    """Return the page as GitHub's Markdown."""
    return _environment().get_template("study.md.j2").render(**_values(study)) + "\n"


def page(study: PanelStudyRun) -> str:
    """Return the page; all text is escaped, and it needs no other file."""
    return (
        _environment()
        .get_template("study.html.j2")
        .render(
            policy=_POLICY,
            style=Markup(
                asset("style.css")
                + asset("report.css")
                + files(_PACKAGE).joinpath("assets", "study.css").read_text("utf-8")
            ),
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            picture=functools.partial(_embedded, study.folder),
            provenance=_provenance(study),
            **_values(study),
        )
    )


def _values(study: PanelStudyRun) -> dict[str, Any]:
    """Return what both pages show."""
    return {
        "study": study,
        "config": study.config,
        "stats": _stats(study.loaded.table),
        "judges": judge_lines(study),
        "done": [one for one in study.outcomes if one.state == "done"],
        "rest": [one for one in study.outcomes if one.state != "done"],
        "table_file": TABLE,
        "numbers_file": NUMBERS,
    }


def _stats(table: AnswerTable) -> list[tuple[str, str, str]]:
    """(label, value, note) of the top of the page."""
    n = counts(table)
    families = len(set(table.families))
    lost = n["unscored"]
    asked = n["answers"] + lost
    stats = [
        ("Judges", whole(len(table.judges)), f"of {families} families"),
        ("Images", whole(n["images"]), f"of {whole(n['items'])} items"),
        ("Facts", whole(n["facts"]), "asked of these images"),
        ("Answers", whole(n["answers"]), f"{whole(lost)} of {whole(asked)} asked are unscored"),
    ]
    if n["models"]:
        stats.append(("Models", whole(n["models"]), "that drew"))
    if n["facts_with_truth"]:
        stats.append(
            ("Known truth", whole(n["facts_with_truth"]), f"{whole(n['facts_that_hold'])} hold")
        )
    if n["ratings"]:
        stats.append(
            ("Human ratings", whole(n["ratings"]), f"of {whole(n['images_with_ratings'])} images")
        )
    if n["rounds"]:
        stats.append(("Rounds", whole(n["rounds"]), "of a loop"))
    return stats


def _provenance(study: PanelStudyRun) -> dict[str, str]:
    table = study.loaded.table
    found = {
        "Answers": f"{table.name}, digest {study.digests[0][:16]}",
        "Learnt from": f"digest {study.digests[1][:16]}" if study.digests[1] else "nothing apart",
        "Seed": str(study.config.seed),
        "Resamples": whole(study.config.resamples),
    }
    found |= {f"Judge {j.id}": j.fingerprint or "fingerprint not known" for j in table.judges}
    return found | dict(installed_versions())


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot within the page."""

    uri: str
    """The SVG as a data URI."""
    width: int
    """How wide it is shown at most, in pixels."""
    wide: bool
    """Whether it needs the page's whole width."""


def _embedded(folder: Path, part: str, stem: str) -> Picture:
    data = (folder / part / f"{stem}.svg").read_bytes()
    uri = "data:image/svg+xml;base64," + base64.b64encode(data).decode("ascii")
    found = _SIZE.search(data[:4000])
    width = float(found[1]) if found else 500.0
    # In points; letters of 10 points are then as large as the page's small text.
    return Picture(uri, round(width * _PIXELS), width > _WIDE)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(_PACKAGE, "assets"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"share": _share, "whole": whole, "number": number, "duration": duration}
    return made


def summary(study: PanelStudyRun) -> dict[str, Any]:
    """Return the summary that the command prints as JSON."""
    return {
        "folder": str(study.folder),
        "page": str(study.folder / PAGE),
        "answer": study.answer,
        "table": counts(study.loaded.table) | {"digest": digest_of(study.loaded.table)},
        "parts": {
            one.name: {
                "state": one.state,
                "reason": one.reason,
                "findings": list(one.findings),
                "figures": one.figures,
            }
            for one in study.outcomes
        },
    }


def rows_of(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """(part, state, what it found first or why it was not done), for a terminal."""
    return [
        (one.name, one.state, one.reason or next(iter(one.findings), "no findings"))
        for one in outcomes
    ]
