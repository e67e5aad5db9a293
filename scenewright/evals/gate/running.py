"""Run a gate: batches of scenes are drawn and judged on both sides until the verdict is reached.

Each side that is a profile is an evaluation in a folder of its own, ``baseline`` or ``candidate``;
both take the scenes in the same random order with the same seeds. A killed gate goes on where it
was: evaluations repeat no work, and the verdict depends on the order of the scenes alone, not on
the size of batches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from scenewright.config.settings import Settings, load_settings
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.gate.page import write_page
from scenewright.evals.gate.result import (
    GateOptions,
    GateResult,
    changed_facts,
    compared,
    result_of,
)
from scenewright.evals.gate.subjects import (
    Drawn,
    Finished,
    RandomOrder,
    Subject,
    check_panels,
    config_in,
    config_of,
)
from scenewright.evals.reporting.evaluations import Side, open_sides
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import Progress
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.manifest import make_folder
from scenewright.evals.store.results import IMAGES
from scenewright.runs.folder import write_json

RESULT = "gate.json"
"""File of the result."""
ROLES = ("baseline", "candidate")
BATCH = 20


class Show(Protocol):
    """Callback of progress."""

    def __call__(self, done: int, total: int | None, doing: str = "", more: str = "") -> None:
        """Show that ``done`` of ``total`` scenes are done."""
        ...


def silent(done: int, total: int | None, doing: str = "", more: str = "") -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate that is ready to run."""

    baseline: Subject
    candidate: Subject
    options: GateOptions
    folder: Path
    """Folder of the result, the page, and the evaluations of the sides."""
    configs: Mapping[str, EvalConfig]
    """Role → evaluation of each side that is a profile."""
    order: RandomOrder | None
    """The scenes; None where both sides are finished."""
    settings: Settings
    root: Path
    """Where relative paths of the configuration begin."""
    given: EvalModelOverrides | None = None
    """Models that replace those of the profiles."""
    force: bool = False
    """Whether sides that were measured differently are compared."""

    @property
    def sides(self) -> tuple[Subject, Subject]:
        """Return baseline and candidate."""
        return self.baseline, self.candidate

    def open(self) -> tuple[Side, Side]:
        """Return both sides as they are so far.

        Raises ``EvalError`` for tables that cannot be read.
        """
        selectors = [
            side.selector if isinstance(side, Finished) else str(self.folder / role)
            for role, side in zip(ROLES, self.sides, strict=True)
        ]
        first, second = open_sides(selectors)
        return first[0], second[0]


def plan_gate(
    baseline: Subject,
    candidate: Subject,
    options: GateOptions,
    folder: str | Path,
    *,
    config: EvalConfig | None = None,
    root: str | Path | None = None,
    dataset: Dataset | None = None,
    settings: Settings | None = None,
    given: EvalModelOverrides | None = None,
    force: bool = False,
) -> Gate:
    """Return a gate, checked as far as possible before anything is drawn.

    ``config`` has the set, judges, seeds and metrics of the sides that are profiles; without it
    they are those of the side that is a finished evaluation. ``dataset`` replaces its set. Raises
    ``ChoiceError``, ``EvalError``, ``DatasetError`` and ``SettingsError`` for sides that cannot be
    compared.
    """
    settings = settings or load_settings()
    place, base = Path(folder), Path(root) if root is not None else Path()
    finished = [side for side in (baseline, candidate) if isinstance(side, Finished)]
    opened = [side.open() for side in finished]
    configs: dict[str, EvalConfig] = {}
    order = None
    if len(finished) < 2:
        if config is None and not finished:
            raise ChoiceError(
                "two profiles need scenes: name a configuration with --config, or a set with --data"
            )
        config = config or config_in(finished[0])
        configs = {
            role: config_of(role, side, config, settings)
            for role, side in zip(ROLES, (baseline, candidate), strict=True)
            if isinstance(side, Drawn)
        }
        check_panels([*configs.values()], settings)
        items = dataset if dataset is not None else open_dataset(config.dataset, base)
        only = None
        for side in opened:
            if side.evaluation.about.fingerprint != items.fingerprint:
                raise ChoiceError(
                    f"{side.label} is an evaluation of other scenes "
                    f"({side.evaluation.about.dataset}) than those of the gate ({items.name}): "
                    "evaluate both on the same set"
                )
            only = set(side.evaluation.score_matrix.items)
        order = RandomOrder(items, options.seed, options.limit, only)
        if not len(order):
            raise ChoiceError(f"the set {items.name} has no scene to compare: choose another")
    gate = Gate(
        *(baseline, candidate, options, place, configs, order, settings, base, given, force)
    )
    check_folder(place, shared_settings(baseline.text, candidate.text, options))
    return gate


def shared_settings(baseline: str, candidate: str, options: GateOptions) -> dict[str, Any]:
    """Return what gates in the same folder must share."""
    return {
        "baseline": baseline,
        "candidate": candidate,
        "options": options.model_dump(mode="json"),
    }


def read_result(folder: str | Path) -> GateResult:
    """Return the result in ``folder``. Raises ``EvalError`` if there is none."""
    file = Path(folder) / RESULT
    try:
        return GateResult.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EvalError(
            f"{folder} holds no gate ({RESULT}: {error.strerror or error}): name the folder that "
            "`scenewright gate` wrote"
        ) from error
    except ValidationError as error:
        raise EvalError(f"{file} is damaged: {first_problem(error)}") from error


def check_folder(folder: Path, asked: Mapping[str, Any]) -> None:
    """Raise ``EvalError`` if ``folder`` holds another gate than one of ``asked``.

    With other options on the same pictures one would choose the errors after a look at the result.
    """
    if not (folder / RESULT).exists():
        return
    result = read_result(folder)
    before = shared_settings(result.baseline, result.candidate, result.options)
    if before != asked:
        raise EvalError(
            f"{folder} holds another gate ({result.candidate} against {result.baseline}, "
            f"{json.dumps(before['options'])}): name another folder with --out"
        )


def write_result(result: GateResult, folder: Path) -> None:
    """Write the result into ``folder``. Raises ``EvalError`` if that fails."""
    try:
        write_json(folder / RESULT, result.model_dump(mode="json"))
    except OSError as error:
        raise EvalError(
            f"{folder / RESULT} cannot be written: {error.strerror or error}"
        ) from error


def levels(found: GateResult) -> str:
    """Return how far the evidence is from a verdict, for progress."""
    options = found.options
    return (
        f"worse {found.evidence_worse:.2g} of {1 / options.alpha:.3g}, "
        f"not worse {found.evidence_sound:.2g} of {1 / (1 - options.power):.3g}"
    )


async def expected_cost(gate: Gate, retry: bool = False) -> tuple[float, list[str]]:
    """Return the estimated dollars of all scenes on the sides that are drawn.

    The second value names the models without a known price, which the dollars leave out.

    Raises what :func:`scenewright.evals.runner.estimating.estimate` raises.
    """
    total, unpriced = 0.0, dict[str, None]()
    for role, config in gate.configs.items():
        found = await estimate(
            config,
            gate.folder / role,
            settings=gate.settings,
            root=gate.root,
            given=gate.given,
            dataset=gate.order,
            retry=retry,
        )
        total += found.rest.usd
        unpriced |= dict.fromkeys(found.rest.unpriced)
    return total, [*unpriced]


async def run_gate(
    gate: Gate, *, batch: int = BATCH, retry: bool = False, show: Show = silent
) -> GateResult:
    """Run a gate, or go on with it, and write its result and page.

    ``batch`` scenes are drawn between two looks at the scores. ``retry`` tries again what failed
    or was left unscored before. Raises what
    :func:`~scenewright.evals.runner.runner.run_eval` raises, and ``ChoiceError`` for sides that
    were measured differently.
    """
    await asyncio.to_thread(make_folder, gate.folder)
    order = gate.order
    if order is None:
        return await asyncio.to_thread(_finish, gate, None)
    stop = min(max(batch, await asyncio.to_thread(_done_before, gate)), len(order))
    while True:
        order.stop = stop
        for role, config in gate.configs.items():
            await run_eval(
                config,
                gate.folder / role,
                settings=gate.settings,
                root=gate.root,
                given=gate.given,
                dataset=order,
                retry=retry,
                on_progress=_told(show, role, len(order)),
            )
        found = await asyncio.to_thread(_finish, gate, stop)
        show(stop, len(order), "comparing", levels(found))
        if found.finished:
            return found
        retry, stop = False, min(stop + batch, len(order))


def _told(show: Show, role: str, total: int) -> Any:
    def told(now: Progress) -> None:
        usd = f", ${now.usd:.4f}" if now.usd else ""
        show(now.items, total, f"{role}: {now.doing}", f"{now.pictures} pictures{usd}")

    return told


def _done_before(gate: Gate) -> int:
    """Return the scenes of the order that an earlier run of the same gate has looked at."""
    return read_result(gate.folder).looked_at if (gate.folder / RESULT).exists() else 0


def _finish(gate: Gate, stop: int | None) -> GateResult:
    """Compare the sides, and write the result; with a verdict also the page.

    ``stop`` is the number of scenes that were drawn; None where both sides are finished.
    """
    first, second = sides = gate.open()
    found = compared(first, second, gate.options, force=gate.force)
    if stop is None or gate.order is None:
        of, finished = len(found.items) + sum(found.left_out.values()), True
    else:
        of = len(gate.order)
        finished = found.decided.decision != "undecided" or stop >= of
        # A finished side has scenes that the other one need not draw.
        missing = {why: n for why, n in found.left_out.items() if not why.startswith("only ")}
        found = replace(found, left_out=missing)
    drawn = [side for side, one in zip(sides, gate.sides, strict=True) if isinstance(one, Drawn)]
    totals = [side.evaluation.about.totals for side in drawn]
    changes = gate.candidate.changes if isinstance(gate.candidate, Drawn) else {}
    tally = changed_facts(*sides, found.column.panel, found.items if finished else ())
    result = result_of(
        found,
        gate.options,
        tally,
        of=of,
        looked_at=of if stop is None else stop,
        finished=finished,
        baseline=gate.baseline.text,
        candidate=gate.candidate.text,
        changes=dict(changes),
        pictures=round(sum(each.get("images", 0.0) for each in totals)),
        usd=sum(each.get("usd", 0.0) for each in totals),
    )
    write_result(result, gate.folder)
    if finished:
        images = [side.evaluation.folder / IMAGES for side in sides]
        write_page(result, found, gate.folder, images)
    return result
