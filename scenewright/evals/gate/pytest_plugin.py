"""Pytest plugin with the fixture ``assert_not_worse``; pytest finds it by its entry point.

The gate's code is imported at the first use of the fixture, so that test suites without a gate
start as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from scenewright.evals.gate.result import GateResult


_OBJECTS = frozenset({"dataset", "given", "settings"})


@pytest.fixture
def assert_not_worse(request: pytest.FixtureRequest) -> Callable[..., GateResult]:
    """Return a function that fails the test unless a candidate is not worse than a baseline.

    It takes the arguments of :func:`scenewright.evals.gate.asserting.assert_not_worse`. Without
    ``out`` the folder is one of the test in pytest's cache, so that an interrupted test goes on;
    the verdict is a property of the test in JUnit reports, and the result a section of its report.
    """

    def check(baseline: str | Path, candidate: str | Path, **options: Any) -> GateResult:
        from scenewright.evals.gate.asserting import WorseError, assert_not_worse, described

        place = Path(options.pop("out", None) or _folder(request, baseline, candidate, options))
        try:
            found = assert_not_worse(baseline, candidate, out=place, **options)
        except WorseError as error:
            _note(request, error.result, str(error))
            raise
        _note(request, found, described(found, place))
        return found

    return check


def _folder(
    request: pytest.FixtureRequest, baseline: str | Path, candidate: str | Path, options: Any
) -> Path:
    """Return a folder for the gate of a test: another one for each baseline, candidate, options."""
    # Objects say nothing that is the same in another process.
    plain = {key: str(options[key]) for key in sorted(options) if key not in _OBJECTS}
    said = repr((request.node.nodeid, str(baseline), str(candidate), plain))
    name = hashlib.sha256(said.encode()).hexdigest()[:12]
    cache = request.config.cache
    if cache is None:
        pytest.fail("pytest's cache is off (-p no:cacheprovider): name a folder with out=")
    return cache.mkdir("scenewright-gate") / name


def _note(request: pytest.FixtureRequest, result: GateResult, text: str) -> None:
    request.node.user_properties.append(("scenewright_gate", result.verdict))
    request.node.add_report_section("call", "scenewright gate", text)
