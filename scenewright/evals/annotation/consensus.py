"""Consensus of a panel: from votes or judges to graphs, thresholds, rare predicates, splits.

Everything here is computed anew from the ledger, so that another threshold or an edited mapping of
synonyms costs nothing but a second run.

A model that draws up a graph names what comes to mind; a judge who is asked about one relation,
with wrong ones beside it, has to look. So relations can also be verified by a panel of judges, with
the questions of the benchmark. The split of a photo depends on its id alone, so that no order
matters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import MAX_RELATIONS, Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.config import AnnotateConfig, Splits
from scenewright.evals.annotation.panel_queries import Claim, Voter, claims_of, plain, replies_of
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.store.ledger import Ledger, Photo
from scenewright.providers import Answers

Chances = dict[int, tuple[float | None, str]]
"""Number of a claim → (the judges' probability, or None; reason)."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A photo with the relations that models name."""

    photo: Photo
    claims: tuple[Claim, ...]
    """All named relations."""

    @property
    def id(self) -> str:
        """Id of the photo."""
        return self.photo.id


@dataclass(frozen=True, slots=True)
class Verified:
    """The judges' verdicts on one photo's claims."""

    chances: Chances
    spent: Mapping[str, Mapping[str, float]]
    """Judge → ``tokens_in``, ``tokens_out``, ``usd`` and ``unscored`` answers."""


Verify = Callable[[Iterator[Claimed], Callable[[Claimed, Verified], None]], Awaitable[None]]
"""Has judges verify claims; the callback is called for each photo."""


def scene_of(photo: Photo, claims: Sequence[Claim]) -> SceneGraph:
    """Return the photo's objects, and the relations of ``claims``."""
    return SceneGraph(
        objects=tuple(SceneObject(id=id_, name=name) for id_, name, _ in photo.objects),
        relations=tuple(
            Relation(source=s, predicate=p, target=t) for s, p, t in (c.triple for c in claims)
        ),
    )


async def verify(
    claimed: Claimed,
    judges: Sequence[Judge],
    store: Answers,
    load: Callable[[], Image.Image],
) -> Verified:
    """Return the verdicts of ``judges`` on each claim, all of them asked at once.

    Detections are not verified: only relations are asked. Answers are kept in ``store``. ``load``
    loads the photo, and is called in a thread. Raises ``ImageError`` and ``StoreError``.
    """
    photo, claims = claimed.photo, claimed.claims
    asked = [at for at, claim in enumerate(claims) if claim.triple[1] != NO_RELATION]
    if not asked:
        return Verified({}, {})
    facts = [
        fact.model_copy(update={"parents": ()})
        for fact in facts_of(scene_of(photo, [claims[at] for at in asked]))
        if fact.kind == "relation"
    ]

    judge_panel = JudgePanel("annotation", tuple(judges), Panel())
    found = await judge_picture(
        judge_panel, photo.digest, load, facts, store=store, asking="together", origin="annotate"
    )
    spent = {
        judge: {
            "tokens_in": sum(answer.tokens_in for answer in answers),
            "tokens_out": sum(answer.tokens_out for answer in answers),
            "usd": sum(answer.usd for answer in answers),
            "unscored": sum(answer.state == "unscored" for answer in answers),
        }
        for judge, answers in found.answers.items()
    }
    verdicts = {verdict.fact_id: verdict for verdict in found.card.verdicts}
    chances: Chances = {}
    for at, fact in zip(asked, facts, strict=True):
        verdict = verdicts[fact.id]
        chance = None if verdict.state == "unscored" else verdict.probability
        chances[at] = (chance, verdict.reason)
    return Verified(chances, spent)


PARTS = ("train", "val", "test")


def place_of(photo_id: str, seed: int) -> float:
    """Return a number in [0, 1) from the first eight bytes of SHA-256 over seed and photo id."""
    digest = hashlib.sha256(f"{seed}\0{photo_id}".encode("utf-8", "surrogatepass")).digest()
    # Of 64 bits a double holds 53.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def part_of(place: float, splits: Splits) -> str:
    """Return ``train``, ``val`` or ``test`` for a photo at ``place`` of [0, 1).

    The shares of ``splits`` decide; never ``test`` where that is drawn by counts.
    """
    test = 0.0 if splits.test_counts else splits.test
    shares = dict(zip(PARTS, (splits.train, splits.val, test), strict=True))
    left = place * sum(shares.values())
    chosen = "train"
    for part, share in shares.items():
        if share <= 0:
            continue
        chosen = part
        if left < share:
            break
        left -= share
    return chosen


_BLOCK = 64


def predicate_counts(ledger: Ledger, voters: Sequence[Voter], samples: int) -> Counter[str]:
    """Return predicate → occurrences in the replies, before synonyms are merged."""
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
    on_photo: Callable[[Verified], None] = lambda verified: None,
    verify: Verify | None = None,
) -> int:
    """Write claims and consensus of every photo into ``ledger``; the photos below the quorum.

    With ``verify`` the judges' probability stands in place of the share of votes. Raises what
    ``verify`` raises.
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
        listed = [_listed(c, verified.chances.get(at)) for at, c in enumerate(piece.claims)]
        by_judges = config.consensus == "judges"
        kept = [
            at
            for at, claim in enumerate(listed)
            if ((claim["chance"] or 0.0) if by_judges else claim["share"]) > config.threshold
        ]
        photo = piece.photo
        rows.append((photo.position, listed, kept, place_of(photo.id, config.seed)))
        on_photo(verified)
        if len(rows) >= _BLOCK:
            some, rows[:] = list(rows), []
            ledger.add_graphs(some)

    if config.consensus == "judges" and verify is not None:
        await verify(claimed(), found)
    else:
        for piece in claimed():
            found(piece, Verified({}, {}))
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
    """Drop predicates with fewer than ``rare`` occurrences from the graphs; return their counts.

    It also writes the graphs' levels.
    """
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
    """Return the level of complexity (γ = 0) of a graph with that number of relations."""
    ends = tuple(SceneObject(id=name, name=name) for name in "ab")
    some = tuple(Relation(source="a", predicate=str(n), target="b") for n in range(relations))
    return SceneGraph(objects=ends, relations=some).level()


def split(ledger: Ledger, config: AnnotateConfig) -> dict[str, int]:
    """Assign a part to every graph with enough relations; return part → graphs.

    By ``test_counts`` the test part takes of each level those that come first by their places;
    :func:`part_of` decides on the others. Levels with too few graphs give all they have.
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
