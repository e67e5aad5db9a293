"""From what several models said of a photo to one list of relations, disagreement kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Triple = tuple[str, str, str]
"""(source id, predicate, target id)."""


def plain(predicate: str) -> str:
    """``predicate`` without capitals and with single spaces: how it is counted."""
    return " ".join(predicate.casefold().split())


@dataclass(frozen=True, slots=True)
class Claim:
    """A relation that at least one reply names."""

    triple: Triple
    """As most of its voters put it, with merged predicate."""
    voters: tuple[str, ...]
    """Who named it, in the order of the replies."""
    said: tuple[str, ...]
    """In what words each of them did, synonyms and the other end included: ``cat right of dog``."""
    of: int
    """Usable replies about the photo."""

    @property
    def share(self) -> float:
        """Share of the replies that name it, 0 to 1."""
        return len(self.voters) / self.of


def claims_of(
    replies: Mapping[str, Sequence[Triple]],
    synonyms: Mapping[str, str] | None = None,
    converses: Mapping[str, str] | None = None,
) -> list[Claim]:
    """All relations that ``replies`` (voter → triples) name, those with most votes first.

    A voter counts once a relation, however often it says it. ``synonyms`` (predicate → the one
    that stands for it) are applied first; a relation and its converse (``converses``) are one. A
    reply without relations is a vote against all. Order: votes, then the ids and the predicate.
    """
    merged, turned = synonyms or {}, converses or {}
    found: dict[Triple, dict[str, list[tuple[Triple, str]]]] = {}
    for voter, triples in replies.items():
        for source, predicate, target in triples:
            word = merged.get(plain(predicate), plain(predicate))
            triple = (source, word, target)
            other = turned.get(word)
            key = triple if other is None else min(triple, (target, other, source))
            said = f"{source} {predicate} {target}"
            found.setdefault(key, {}).setdefault(voter, []).append((triple, said))
    claims = []
    for votes in found.values():
        first = [forms[0] for forms in votes.values()]
        forms = [triple for triple, _ in first]
        shown = max(sorted(set(forms)), key=forms.count)
        words = tuple(said for _, said in first)
        claims.append(Claim(shown, tuple(votes), words, len(replies)))
    return sorted(claims, key=lambda claim: (-len(claim.voters), claim.triple))
