"""The commit that a result is of, and whether a full result may be written from this tree.

A result names the commit of the code that was measured. That holds only if the code is committed
and the commit stays: one of a topic branch vanishes when the branch is rebased or squashed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = ("main", "origin/HEAD", "origin/main")
"""Branches that keep their commits, in the order of preference; forks may lack some."""
OUTPUTS = ("benchmarks/results", "docs", "README.md", "CHANGELOG.md")
"""Tracked paths that benchmarks and people write after measuring: no code."""
CODE = ("scenewright", "benchmarks", "examples")
"""Folders in which a file that git does not know may be part of what was measured."""


class CommitError(RuntimeError):
    """A tree whose results name no lasting commit; says how to go on."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout as it stands."""

    commit: str
    """Hash of its commit, ``unknown`` without git."""
    problem: str | None
    """Why no full result may be written from it, and how to go on; None if one may."""


def tree_of(root: Path = ROOT) -> Tree:
    """Return the state of the checkout at ``root``."""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return Tree(
            "unknown", f"{root} is not a git checkout: measure in a clone of the repository"
        )
    if changed := changes_of(root):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Tree(head, f"{changed[0]}{more} differ from commit {head}: commit the code first")
    return Tree(head, _off_main(root, head))


def changes_of(root: Path = ROOT) -> list[str]:
    """Return the files of code that differ from the commit, outputs left out."""
    outside = [f":(exclude){path}" for path in OUTPUTS]
    tracked = _git(root, "diff", "--name-only", "HEAD", "--", ".", *outside) or ""
    there = [path for path in CODE if (root / path).is_dir()]
    unknown = (
        _git(root, "ls-files", "--others", "--exclude-standard", "--", *there, *outside)
        if there
        else ""
    )
    return sorted({*tracked.splitlines(), *(unknown or "").splitlines()})


def measured_commit(started: Tree, root: Path = ROOT) -> str:
    """Return the commit that a result is of; ``started`` is the tree when the process began.

    Raises ``CommitError`` if a full result may not be written.
    """
    if started.problem is not None:
        raise CommitError(started.problem)
    now = tree_of(root)
    outside = [f":(exclude){path}" for path in OUTPUTS]
    moved = now.commit != started.commit and _git(
        root, "diff", "--quiet", started.commit, "HEAD", "--", ".", *outside
    ) is None  # fmt: skip
    if moved or (now.commit == started.commit and changes_of(root)):
        raise CommitError(
            f"the code changed after the measurement of commit {started.commit} had begun: "
            "run it again, best in a worktree that nobody edits (`git worktree add`)"
        )
    return started.commit


def is_in_history(commit: str, root: Path = ROOT, tip: str = "HEAD") -> bool:
    """Return whether ``commit`` is an ancestor of ``tip`` or ``tip`` itself."""
    return _git(root, "merge-base", "--is-ancestor", commit, tip) is not None


def is_shallow(root: Path = ROOT) -> bool:
    """Return whether the history is cut off, or there is none."""
    return _git(root, "rev-parse", "--is-shallow-repository") != "false"


def _off_main(root: Path, head: str) -> str | None:
    """Why ``head`` may vanish; None if it is on a branch that stays."""
    for branch in MAIN:
        if _git(root, "rev-parse", "--verify", "--quiet", f"{branch}^{{commit}}") is None:
            continue
        if is_in_history(head, root, branch):
            return None
        return (
            f"commit {head} is not on {branch}: merge it there first, so that the results name a "
            "commit that stays"
        )
    if _git(root, "symbolic-ref", "--quiet", "HEAD") is not None:
        return None
    return (
        f"commit {head} is checked out without a branch, and there is none of "
        f"{', '.join(MAIN)} to compare with: fetch one (`git fetch origin main:main`)"
    )


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of git without white space at its ends; None if it failed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
