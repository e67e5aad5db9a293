"""Results name the weights that they were measured with, and pages those that were replaced."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import _weights
from benchmarks._templates import Result
from benchmarks._weights import WEIGHTS, digest_of, replaced, weights_read


def test_what_a_process_reads_is_seen() -> None:
    (WEIGHTS / "judges" / "judge-weak" / "config.json").read_bytes()
    (WEIGHTS / "judges" / "judge-eager" / "report.json").exists()
    assert weights_read()["judges/judge-weak"] == digest_of(WEIGHTS / "judges" / "judge-weak")


def test_a_report_beside_weights_is_not_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("1")
    before = digest_of(tmp_path)
    (tmp_path / "report.json").write_text("2")
    digest_of.cache_clear()
    assert digest_of(tmp_path) == before
    (tmp_path / "config.json").write_text("2")
    assert digest_of(tmp_path) == before, "read once a process"
    digest_of.cache_clear()
    assert replaced({tmp_path.name: before}, tmp_path.parent) == [tmp_path.name]
    assert replaced({"gone": before}, tmp_path) == ["gone"]


def test_a_page_says_that_weights_were_replaced(tmp_path: Path) -> None:
    content = {"name": "x", "commit": "c", "date": "d", "n": 1, "figures": {}, "machine": {}}
    file = tmp_path / "x.json"
    for weights, told in (
        ({}, False),
        ({"judges/judge-a": _weights.digest_of(WEIGHTS / "judges" / "judge-a")}, False),
        ({"judges/judge-a": "0"}, True),
    ):
        file.write_text(json.dumps(content | ({"weights": weights} if weights else {})))
        said = Result.read(file).source
        assert ("with weights that were replaced since (judges/judge-a)" in said) == told
