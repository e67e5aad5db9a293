"""Full results are of commits that stay: written from no other tree, and the committed ones are."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import _harness
from benchmarks._commit import (
    ROOT,
    CommitError,
    changes_of,
    is_in_history,
    is_shallow,
    measured_commit,
    tree_of,
)

MEASURE_ANEW = frozenset(
    {
        *("annotate", "augmentation", "metrics", "miniature", "overhead"),
        *("real_cost", "runner", "shared_limits", "throughput"),
    }
)
"""Results whose commits were lost when branches were rebased, until they are measured again."""


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *own, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "benchmarks" / "x.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-m", text)
    return git(folder, "rev-parse", "--short=12", "HEAD")


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    (folder / "benchmarks" / "results").mkdir(parents=True)
    git(folder, "init", "-b", "main")
    commit(folder, "one")
    return folder


@needs_git
def test_a_committed_tree_of_main_names_its_commit(clone: Path) -> None:
    head = git(clone, "rev-parse", "--short=12", "HEAD")
    assert measured_commit(tree_of(clone), clone) == head
    # Outputs of benchmarks and documents are no code.
    (clone / "benchmarks" / "results" / "a.json").write_text("{}")
    (clone / "README.md").write_text("figures")
    assert measured_commit(tree_of(clone), clone) == head


@needs_git
def test_changed_and_unknown_code_is_refused_with_what_to_do(clone: Path) -> None:
    (clone / "benchmarks" / "x.py").write_text("changed")
    with pytest.raises(CommitError, match=r"benchmarks/x\.py differ.*commit the code first"):
        measured_commit(tree_of(clone), clone)
    git(clone, "checkout", "-q", "--", ".")
    (clone / "benchmarks" / "y.py").write_text("new")
    assert changes_of(clone) == ["benchmarks/y.py"]
    with pytest.raises(CommitError, match=r"benchmarks/y\.py"):
        measured_commit(tree_of(clone), clone)


@needs_git
def test_a_commit_of_a_topic_branch_is_refused_until_it_is_on_main(clone: Path) -> None:
    git(clone, "checkout", "-q", "-b", "topic")
    head = commit(clone, "two")
    with pytest.raises(CommitError, match=f"{head} is not on main: merge it"):
        measured_commit(tree_of(clone), clone)
    git(clone, "branch", "-f", "main", "topic")
    assert measured_commit(tree_of(clone), clone) == head


@needs_git
def test_a_detached_clone_is_compared_with_the_branch_of_its_origin(
    clone: Path, tmp_path: Path
) -> None:
    there = tmp_path / "ci"
    subprocess.run(["git", "clone", "-q", str(clone), str(there)], check=True)
    git(there, "checkout", "-q", "--detach")
    git(there, "branch", "-D", "main")
    head = git(there, "rev-parse", "--short=12", "HEAD")
    assert measured_commit(tree_of(there), there) == head
    git(there, "update-ref", "-d", "refs/remotes/origin/HEAD", "--no-deref")
    git(there, "update-ref", "-d", "refs/remotes/origin/main")
    with pytest.raises(CommitError, match=r"without a branch.*git fetch"):
        measured_commit(tree_of(there), there)
    # A fork may call its branch as it likes.
    git(there, "checkout", "-q", "-b", "trunk")
    assert measured_commit(tree_of(there), there) == head


@needs_git
def test_code_that_changes_while_it_is_measured_is_refused(clone: Path) -> None:
    started = tree_of(clone)
    (clone / "benchmarks" / "x.py").write_text("edited meanwhile")
    with pytest.raises(CommitError, match=f"after the measurement of commit {started.commit}"):
        measured_commit(started, clone)
    commit(clone, "two")
    with pytest.raises(CommitError, match="worktree that nobody edits"):
        measured_commit(started, clone)


@needs_git
def test_documents_that_are_committed_meanwhile_change_nothing(clone: Path) -> None:
    started = tree_of(clone)
    (clone / "README.md").write_text("figures")
    git(clone, "add", "-A")
    git(clone, "commit", "-m", "documents")
    assert measured_commit(started, clone) == started.commit


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    with pytest.raises(CommitError, match="measure in a clone"):
        measured_commit(tree_of(tmp_path), tmp_path)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_harness, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(_harness, "ASIDE", tmp_path / "aside")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text("full")
    return tmp_path


def test_a_refused_result_stays_as_it_was_and_its_figures_are_not_lost(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> str:
        raise CommitError("x.py differs: commit the code first")

    monkeypatch.setattr(_harness, "measured_commit", refused)
    with pytest.raises(SystemExit, match=r"is unchanged: x\.py differs: commit the code first"):
        _harness.report("a", 3, {"f": 0.5}, quick=False)
    assert (results / "results" / "a.json").read_text() == "full"
    kept = json.loads((results / "aside" / "a.json").read_text())
    assert (kept["figures"], kept["unpublished"]) == (
        {"f": 0.5},
        "x.py differs: commit the code first",
    )
    with pytest.raises(SystemExit, match="--quick works from any tree"):
        _harness.require_commit()


def test_quick_never_touches_a_full_result(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_harness, "measured_commit", lambda started: "0123456789ab")
    _harness.report("a", 3, {"f": 0.5}, quick=True)
    assert (results / "results" / "a.json").read_text() == "full"
    assert "not written" in capsys.readouterr().out
    _harness.report("a", 3, {"f": 0.5}, quick=False)
    assert json.loads((results / "results" / "a.json").read_text())["commit"] == "0123456789ab"


@pytest.mark.skipif(is_shallow(), reason="the history is not here")
@pytest.mark.parametrize(
    "file", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda file: file.stem
)
def test_every_committed_result_names_a_commit_of_the_history(file: Path) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))["commit"]
    if not is_in_history(found) and file.stem in MEASURE_ANEW:
        pytest.xfail(f"{found} is not in the history: it is to be measured anew")
    assert is_in_history(found), f"{file.name} names {found}, which is not in the history"
