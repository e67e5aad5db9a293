"""A gate as an assertion, for test suites."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, load_settings
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.gate.judges import plan_judge_gate, run_judge_gate
from scenewright.evals.gate.page import REPORT
from scenewright.evals.gate.result import GateOptions, GateResult
from scenewright.evals.gate.running import BATCH, expected_cost, plan_gate, run_gate
from scenewright.evals.gate.subjects import evaluation_of, subject_of
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.runs.spending import unkept_limit, without_price


class WorseError(AssertionError):
    """A candidate that is worse, or of which that is not known; :attr:`result` has the details."""

    def __init__(self, message: str, result: GateResult) -> None:
        super().__init__(message)
        self.result = result


def assert_not_worse(
    baseline: str | Path,
    candidate: str | Path,
    *,
    out: str | Path,
    changes: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    data: str | None = None,
    judges: Sequence[str] = (),
    labels: str | Path | None = None,
    undecided: bool = False,
    batch: int = BATCH,
    limit_usd: float | None = 5.0,
    force: bool = False,
    retry: bool = False,
    dataset: Dataset | None = None,
    settings: Settings | None = None,
    given: EvalModelOverrides | None = None,
    **options: Any,
) -> GateResult:
    """Run a gate in the folder ``out``, and raise unless ``candidate`` is not worse.

    Args:
        baseline: a profile, or the folder of a finished evaluation (``FOLDER:ARM``).
        candidate: the same.
        out: folder of the result, the page and the pictures; the same folder goes on.
        changes: changed fields of the candidate's profile, such as ``{"steps": 8}``.
        config: TOML file of an evaluation: set, judges, seeds, metrics.
        data: name of a set, in place of ``config``.
        judges: judges in place of the profiles' report judges.
        labels: labelled facts, to compare two judges (``kind:model``) by their right answers.
        undecided: whether an undecided gate passes.
        batch: scenes that are drawn between two looks at the scores.
        limit_usd: estimated dollars above which nothing is drawn; None: any.
        force: whether sides that were measured differently are compared.
        retry: whether failed and unscored work is tried again.
        dataset: a set in place of that of ``config``.
        settings: settings in place of those of this machine.
        given: models that replace those of the profiles.
        options: fields of :class:`~scenewright.evals.gate.result.GateOptions`: ``margin``,
            ``alpha``, ``power``, ``metric``, ``panel``, ``seed``, ``limit``.

    Raises:
        WorseError: the candidate is worse, or undecided.
        EvalError: the gate cannot be run, or would cost more than ``limit_usd``.
    """
    asked = GateOptions(**options)
    if labels is not None:
        of_judges = plan_judge_gate(
            *(str(baseline), str(candidate), labels, asked, out), settings=settings
        )
        return _passed(
            run_judge_gate(of_judges, batch=batch, limit_usd=limit_usd), Path(out), undecided
        )
    gate = plan_gate(
        subject_of(str(baseline)),
        subject_of(str(candidate), changes),
        asked,
        out,
        config=evaluation_of(config, data, judges, options.get("panel", "")),
        root=Path(config).parent if config is not None else None,
        dataset=dataset,
        settings=settings,
        given=given,
        force=force,
    )

    async def run() -> GateResult:
        usd, unpriced = (0.0, []) if limit_usd is None else await expected_cost(gate, retry)
        here = settings or load_settings()
        if (names := without_price(unpriced, here)) and not here.allow_unpriced:
            raise EvalError(unkept_limit(names, f"${limit_usd:.2f}"))
        if limit_usd is not None and usd > limit_usd:
            raise EvalError(
                f"the gate may cost ${usd:.2f}, the limit is ${limit_usd:.2f}: raise limit_usd, or "
                "lower limit"
            )
        return await run_gate(gate, batch=batch, retry=retry)

    return _passed(run(), Path(out), undecided)


def _passed(work: Coroutine[Any, Any, GateResult], folder: Path, undecided: bool) -> GateResult:
    """Do ``work`` and return its result; raise ``WorseError`` unless it passes."""
    # A test may run in an event loop of its own.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(asyncio.run, work).result()
    if not found.passed and not (undecided and found.verdict == "undecided"):
        raise WorseError(described(found, folder), found)
    return found


def described(result: GateResult, folder: Path) -> str:
    """Return a result in a few lines."""
    lines = [f"{result.candidate} against {result.baseline}: {result.reason}"]
    if result.difference is not None and result.low is not None and result.high is not None:
        lines.append(
            f"{result.metric}: {result.before:.3f} → {result.after:.3f} ({result.difference:+.3f}, "
            f"95% {result.low:+.3f} to {result.high:+.3f}) over {result.scenes} scenes"
        )
    if result.kinds:
        lost = (f"{n.lost} {kind} facts (gained {n.gained})" for kind, n in result.kinds.items())
        lines.append(f"lost: {', '.join(lost)}")
    lines += [f"{n} left out: {why}" for why, n in result.left_out.items()]
    lines += [f"note: {text}" for text in result.notes]
    return "\n".join([*lines, f"page: {folder / REPORT / 'index.html'}"])
