"""The page of a study, as HTML in one file and as Markdown, and its numbers as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.core.flushing import write_text
from scenewright.evals.reporting.document import Document, Picture, Section
from scenewright.evals.reporting.frames import Column, Frame, percent
from scenewright.evals.reporting.words import whole
from scenewright.evals.studies.panel.running import TABLE, Outcome, PanelStudyRun
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from scenewright.runs.folder import installed_versions, write_json
from scenewright.runs.report.words import duration

PAGE, MARKDOWN, NUMBERS = "index.html", "index.md", "study.json"
_FORMAT = 1


def write_study(study: PanelStudyRun) -> Path:
    """Write ``index.html``, ``index.md`` and ``study.json`` into the study's folder.

    Each is written whole or not at all. Returns the page's path. Raises ``PanelStudyError`` if that
    fails.
    """
    page = document(study)
    try:
        write_json(study.folder / NUMBERS, numbers(study))
        write_text(study.folder / MARKDOWN, page.markdown())
        write_text(study.folder / PAGE, page.html())
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
        "parts": _parts(
            study, {"state", "reason", "options", "findings", "figures", "notes", "seconds"}
        ),
    }


def summary(study: PanelStudyRun) -> dict[str, Any]:
    """Return the summary that the command prints as JSON."""
    return {
        "folder": str(study.folder),
        "page": str(study.folder / PAGE),
        "answer": study.answer,
        "table": counts(study.loaded.table) | {"digest": study.digests[0]},
        "parts": _parts(study, {"state", "reason", "findings", "figures"}),
    }


def rows_of(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """(part, state, what it found first or why it was not done), for a terminal."""
    return [
        (one.name, one.state, one.reason or next(iter(one.findings), "no findings"))
        for one in outcomes
    ]


def _parts(study: PanelStudyRun, fields: set[str]) -> dict[str, Any]:
    return {one.name: one.model_dump(mode="json", include=fields) for one in study.outcomes}


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


def document(study: PanelStudyRun) -> Document:
    """Return the page."""
    lead = study.lead
    done = [one for one in study.outcomes if one.state == "done"]
    sections = [_section(study, one) for one in done]
    sections.append(Section("judges", "The judges", frames=(_judges(study),)))
    rest = [
        {"part": f"{one.title} ({one.name})", "state": one.state, "why": f"{one.reason}."}
        for one in study.outcomes
        if one.state != "done"
    ]
    if rest:
        shown = Frame.of("rest", rest, columns={"state": "State", "why": "Why"}, head="Part",
                         label="{part}")  # fmt: skip
        sections.append(Section("rest", "Parts that were not run", frames=(shown,)))
    sections.append(
        Section(
            "how",
            "How it was made",
            lead="Intervals are 95 % percentile bootstraps over items unless a part says "
            f"otherwise; a missing answer never counts as a no. All numbers are in {NUMBERS}, all "
            f"answers in {TABLE}.",
            files=(NUMBERS, TABLE),
            facts={"Answers, judges and versions": _provenance(study)}
            | {f"Options of {one.name}": one.options for one in done if one.options},
        )
    )
    return Document(
        kind="Panel study",
        title=study.config.name,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        answer=study.answer,
        lead=lead.name if lead else "",
        about=tuple(filter(None, (study.config.about, study.loaded.about))),
        stats=_stats(study.loaded.table),
        notices=study.loaded.notes,
        sections=tuple(sections),
    )


def _section(study: PanelStudyRun, one: Outcome) -> Section:
    return Section(
        one.name,
        one.title,
        lead=one.about,
        findings=one.findings or ("No findings.",),
        plots=tuple(
            Picture(study.folder, f"{one.name}/{stem}.svg", title)
            for stem, title in one.plots.items()
        ),
        frames=one.frames,
        notes=one.notes,
        files=tuple(f"{one.name}/{stem}.parquet" for stem in one.records),
    )


def _judges(study: PanelStudyRun) -> Frame:
    """One row a judge: usable answers, unscored ones, share of yes and of right votes."""
    table = study.loaded.table
    known = ~np.isnan(table.truth)
    rows = []
    for at, judge in enumerate(table.judges):
        votes, there = table.votes[:, at], ~np.isnan(table.said[:, at])
        both = there & known
        rows.append(
            {
                "judge": judge.id
                + (" (steered the loop)" if judge.id in study.loop_judges else ""),
                "family": judge.family or "its own",
                "answers": int(there.sum()),
                "unscored": int((table.asked[:, at] & ~there).sum()),
                "yes": float(votes[there].mean()) if there.any() else None,
                "right": float((votes == table.truth)[both].mean()) if both.any() else None,
            }
        )
    columns: dict[str, str | Column] = {
        **{"family": "Family", "answers": "Answers", "unscored": "Unscored"},
        **{"yes": percent("Says yes (%)"), "right": percent("Right (%)")},
    }
    return Frame.of("judges", rows, columns=columns, head="Judge", label="{judge}")


def _stats(table: AnswerTable) -> tuple[tuple[str, str, str], ...]:
    """(label, value, note) of the top of the page."""
    found = counts(table)
    asked = whole(found["answers"] + found["unscored"])
    n = {name: whole(number) for name, number in found.items()}
    rows = [
        ("Judges", whole(len(table.judges)), f"of {len(set(table.families))} families"),
        ("Images", n["images"], f"of {n['items']} items"),
        ("Facts", n["facts"], "asked of these images"),
        ("Answers", n["answers"], f"{n['unscored']} of {asked} asked are unscored"),
        ("Models", n["models"], "that drew"),
        ("Known truth", n["facts_with_truth"], f"{n['facts_that_hold']} hold"),
        ("Human ratings", n["ratings"], f"of {n['images_with_ratings']} images"),
        ("Rounds", n["rounds"], "of a loop"),
    ]
    return tuple(row for at, row in enumerate(rows) if at < 4 or row[1] != "0")


def _provenance(study: PanelStudyRun) -> dict[str, str]:
    table = study.loaded.table
    times = (f"{one.name} {duration(one.seconds)}" for one in study.outcomes if one.seconds)
    found = {
        "Answers": f"{table.name}, digest {study.digests[0][:16]}",
        "Learnt from": f"digest {study.digests[1][:16]}" if study.digests[1] else "nothing apart",
        "Seed": str(study.config.seed),
        "Resamples": whole(study.config.resamples),
        "Computed in": ", ".join(times) or "nothing was computed",
    }
    found |= {f"Judge {j.id}": j.fingerprint or "fingerprint not known" for j in table.judges}
    return found | dict(installed_versions())
