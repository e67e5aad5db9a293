"""Of equally good ways to match objects, the one that keeps more edges, then the graphs' order.

Objects alike in their attributes and in all that stands around them (two balls, each held by a
dog) can be matched either way at the same cost. Which way is taken decides whether their edges
meet again.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.evals.graph_matching.likeness import Side
from scenewright.evals.graph_matching.refining import same_places

_EQUAL = 1e-9
_SWEEPS = 16
"""Passes over all objects at most; each must have bettered the last."""

Partners = list[int | None]
"""Place in the seen graph, one an object of the reference."""


class TieBreaker:
    """Swaps partners where that costs nothing."""

    def __init__(
        self,
        reference: Side,
        seen: Side,
        weights: Sequence[Sequence[float]],
        edges: Sequence[Sequence[float]],
    ) -> None:
        """``weights`` are the likeness of objects (below 0: may not be matched), ``edges`` that of
        relations."""
        self._reference, self._seen = reference, seen
        self._weights, self._edges = weights, edges
        self._tied = False
        self._between: dict[tuple[int, int], list[int]] = {}
        ends = zip(seen.sources.tolist(), seen.targets.tolist(), strict=True)
        for at, pair in enumerate(ends):
            self._between.setdefault(pair, []).append(at)
        self._sources: list[int] = reference.sources.tolist()
        self._targets: list[int] = reference.targets.tolist()

    def settle(self, partners: Partners, groups: Sequence[tuple[list[int], list[int]]]) -> None:
        """Better ``partners`` in place; ``groups`` are places of objects that may change partners
        among each other, and of their candidates."""
        choice = [group for group in groups if max(map(len, group)) > 1]
        if not choice:
            return
        self._swap(partners, choice)
        if not self._tied or not self._apart(partners):
            return
        other = partners.copy()
        self._follow(other, choice)
        self._swap(other, choice)
        edges = set(range(len(self._sources)))
        if self._kept(other, edges) > self._kept(partners, edges) + _EQUAL:
            partners[:] = other

    def _swap(self, partners: Partners, groups: Sequence[tuple[list[int], list[int]]]) -> None:
        for rows, columns in groups:
            for _ in range(_SWEEPS):
                if not self._sweep(partners, rows, columns):
                    break

    def _apart(self, partners: Partners) -> bool:
        """Whether an edge between matched objects meets none."""
        return any(
            partners[source] is not None
            and partners[target] is not None
            and (partners[source], partners[target]) not in self._between
            for source, target in zip(self._sources, self._targets, strict=True)
        )

    def _follow(self, partners: Partners, groups: Sequence[tuple[list[int], list[int]]]) -> None:
        """Give objects the partner in the same place of the other graph, where another has it to
        whom it is worth the same."""
        holder = {column: row for row, column in enumerate(partners) if column is not None}
        group_of = {row: at for at, (rows, _) in enumerate(groups) for row in rows}
        for row, column in same_places(self._reference, self._seen):
            other, mine = holder.get(column), partners[row]
            if other is None or other == row or mine is None:
                continue
            if group_of.get(row, -1) != group_of.get(other, -2):
                continue
            if self._same(((row, mine), (other, column)), ((row, column), (other, mine))):
                partners[row], partners[other] = column, mine
                holder[column], holder[mine] = row, other

    def _sweep(self, partners: Partners, rows: list[int], columns: list[int]) -> bool:
        changed = False
        for at, row in enumerate(rows):
            for other in rows[at + 1 :]:
                mine, theirs = partners[row], partners[other]
                if self._same(((row, mine), (other, theirs)), ((row, theirs), (other, mine))):
                    changed |= self._try(partners, {row: theirs, other: mine})
        free = sorted(set(columns) - set(partners))
        for row in rows:
            for at, column in enumerate(free):
                mine = partners[row]
                if (
                    mine is not None
                    and self._same(((row, mine),), ((row, column),))
                    and self._try(partners, {row: column})
                ):
                    free[at] = mine
                    changed = True
        return changed

    def _same(
        self, now: Sequence[tuple[int, int | None]], then: Sequence[tuple[int, int | None]]
    ) -> bool:
        """Whether both ways cost the same, and neither pairs what may not be matched."""
        total = 0.0
        for pairs, sign in ((now, 1.0), (then, -1.0)):
            for row, column in pairs:
                if column is not None:
                    weight = self._weights[row][column]
                    if weight < 0:
                        return False
                    total += sign * weight
        return abs(total) <= _EQUAL

    def _try(self, partners: Partners, change: dict[int, int | None]) -> bool:
        """Take ``change`` if it keeps more edges, or as many and is nearer to the order."""
        before = {row: partners[row] for row in change}
        if before == change:
            return False
        self._tied = True
        touched = {
            edge
            for row in change
            for edge in (*self._reference.leaving[row], *self._reference.entering[row])
        }
        kept = self._kept(partners, touched)
        for row, column in change.items():
            partners[row] = column
        gained = self._kept(partners, touched) - kept
        if gained > _EQUAL or (gained >= -_EQUAL and _order(change) < _order(before)):
            return True
        for row, column in before.items():
            partners[row] = column
        return False

    def _kept(self, partners: Partners, touched: set[int]) -> float:
        """How many of the edges meet one between the partners of their ends, likeness added."""
        total = 0.0
        for edge in sorted(touched):
            source, target = partners[self._sources[edge]], partners[self._targets[edge]]
            if source is None or target is None:
                continue
            candidates = self._between.get((source, target))
            if candidates:
                row = self._edges[edge]
                total += 1.0 + max(row[candidate] for candidate in candidates)
        return total


def _order(partners: dict[int, int | None]) -> list[tuple[bool, int]]:
    """Smaller where the earlier objects have the earlier partners."""
    return [(partners[row] is None, partners[row] or 0) for row in sorted(partners)]
