"""From replies to graphs: votes, merged predicates, thresholds, rare predicates, parts.

Everything here is worked out anew from what the ledger holds, so that another threshold or an
edited mapping of synonyms costs nothing but a second run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from scenewright.core.scene import MAX_RELATIONS, Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.panel_queries import replies_of
from scenewright.evals.annotation.parts import part_of, place_of
from scenewright.evals.annotation.verifying import Claimed, Spending, Verified, Verify
from scenewright.evals.annotation.voters import Voter
from scenewright.evals.annotation.votes import Claim, claims_of, plain
from scenewright.evals.store.ledger import Ledger

_BLOCK = 64


def predicate_counts(ledger: Ledger, voters: Sequence[Voter], samples: int) -> Counter[str]:
    """How often each predicate stands in the replies, before any is merged."""
    counts: Counter[str] = Counter()
    for photo in ledger.photos():
        for triples in replies_of(ledger, photo, voters, samples).values():
            counts.update(plain(predicate) for _, predicate, _ in triples)
    return counts


async def build_graphs(
    ledger: Ledger,
    config: AnnotateConfig,
    voters: Sequence[Voter],
    synonyms: Mapping[str, str],
    *,
    verify: Verify | None = None,
    on_answer: Spending = lambda *spent: None,
    on_photo: Callable[[], None] = lambda: None,
) -> int:
    """Write claims and consensus of every photo into ``ledger``; the photos below the quorum.

    With ``verify`` the judges' probability stands in place of the share of votes, and ``on_answer``
    is told what they took. Raises what ``verify`` raises.
    """
    ledger.clear_graphs()
    poor = 0
    rows: list[tuple[int, list[dict[str, Any]], list[int], float]] = []

    def claimed() -> Iterator[Claimed]:
        nonlocal poor
        for photo in ledger.photos():
            replies = replies_of(ledger, photo, voters, config.samples)
            if len(replies) < config.quorum:
                poor += 1
                continue
            claims = claims_of(replies, synonyms, config.converses)[:MAX_RELATIONS]
            yield Claimed(photo, tuple(claims))

    def found(piece: Claimed, verified: Verified) -> None:
        for spent in verified.spent:
            on_answer(*spent)
        listed = [_listed(c, verified.chances.get(at)) for at, c in enumerate(piece.claims)]
        by_judges = config.consensus == "judges"
        kept = [
            at
            for at, claim in enumerate(listed)
            if ((claim["chance"] or 0.0) if by_judges else claim["share"]) > config.threshold
        ]
        photo = piece.photo
        rows.append((photo.position, listed, kept, place_of(photo.id, config.seed)))
        on_photo()
        if len(rows) >= _BLOCK:
            some, rows[:] = list(rows), []
            ledger.add_graphs(some)

    if config.consensus == "judges" and verify is not None:
        await verify(claimed(), found)
    else:
        for piece in claimed():
            found(piece, Verified({}, ()))
    ledger.add_graphs(rows)
    return poor


def _listed(claim: Claim, judged: tuple[float | None, str] | None) -> dict[str, Any]:
    return {
        "source": claim.triple[0],
        "relation": claim.triple[1],
        "target": claim.triple[2],
        "voters": list(claim.voters),
        "said": list(claim.said),
        "of": claim.of,
        "share": claim.share,
        "chance": None if judged is None else judged[0],
        "reason": "" if judged is None else judged[1],
    }


def drop_rare(ledger: Ledger, rare: int) -> dict[str, int]:
    """Take predicates out of the graphs that stand in them less than ``rare`` times; predicate →
    how often it did. Writes the graphs' levels too."""
    counts: Counter[str] = Counter()
    for row in ledger.graphs():
        counts.update(row.claims[at]["relation"] for at in row.kept)
    dropped = {word: n for word, n in sorted(counts.items()) if n < rare}
    changed: dict[int, tuple[Any, ...]] = {}
    for row in ledger.graphs():
        kept = [at for at in row.kept if row.claims[at]["relation"] not in dropped]
        changed[row.photo.position] = (str(kept), len(kept), level_of(len(kept)))
        if len(changed) >= _BLOCK:
            ledger.update_graphs("kept", changed)
            changed = {}
    ledger.update_graphs("kept", changed)
    return dropped


def level_of(relations: int) -> str:
    """Level of complexity (γ = 0) of a graph with so many relations."""
    ends = tuple(SceneObject(id=name, name=name) for name in "ab")
    some = tuple(Relation(source="a", predicate=str(n), target="b") for n in range(relations))
    return SceneGraph(objects=ends, relations=some).level()


def split(ledger: Ledger, config: AnnotateConfig) -> dict[str, int]:
    """Give every graph with enough relations its part; part → graphs.

    By ``test_counts`` the test part takes of each level those that come first by their places;
    :func:`~.parts.part_of` decides on the others. Levels with too few graphs give all they have.
    """
    tests: set[int] = set()
    for level, count in config.splits.test_counts.items():
        for taken, (position, _) in enumerate(ledger.places(config.least_relations, level)):
            if taken >= count:
                break
            tests.add(position)
    counts: Counter[str] = Counter()
    changed: dict[int, tuple[Any, ...]] = {}
    for position, place in ledger.places(config.least_relations):
        part = "test" if position in tests else part_of(place, config.splits)
        counts[part] += 1
        changed[position] = (part,)
        if len(changed) >= _BLOCK:
            ledger.update_graphs("part", changed)
            changed = {}
    ledger.update_graphs("part", changed)
    return dict(counts)
