"""Write scenewright/core/predicates.json: how often predicates join classes in public scene graphs.

    python scripts/predicate_statistics.py PATH/TO/data

The folder holds the releases of DSG (``dsg/dsg-1k-anns.csv``) and SG2Im (``sg2im/*.json``). Only
counts are written: a class or predicate that was seen once stands in the row of all rare ones or
is left out, so that no text of the sets comes along.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scenewright.core.formats import load_scenes
from scenewright.core.predicate_statistics import LEAST_SEEN, PredicateStatistics, Triple, as_json
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import is_wording
from scenewright.evals.datasets.dsg import load as load_dsg

TARGET = Path(__file__).parent.parent / "scenewright" / "predicates.json"


def scenes(data: Path) -> Iterator[SceneGraph]:
    """Yield the scenes of both releases."""
    for item in load_dsg(data / "dsg"):
        if item.scene is not None:
            yield item.scene
    for path in sorted((data / "sg2im").glob("*.json")):
        yield from load_scenes(path)


def without_rare(statistics: PredicateStatistics) -> PredicateStatistics:
    """Return the counts with rare classes as one, without rare predicates."""
    classes: Counter[str] = Counter()
    for (source, _, target), n in statistics.counts.items():
        classes[source] += n
        classes[target] += n
    kept: Counter[Triple] = Counter()
    for (source, predicate, target), n in statistics.counts.items():
        if statistics.totals[predicate] >= LEAST_SEEN and is_wording(predicate):
            ends = [label if classes[label] >= LEAST_SEEN else "" for label in (source, target)]
            kept[ends[0], predicate, ends[1]] += n
    return PredicateStatistics(dict(kept), name=statistics.name)


def main() -> None:
    """Read the folder that the command names and write the file."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    statistics = without_rare(PredicateStatistics.of(scenes(Path(sys.argv[1]))))
    TARGET.write_text(as_json(statistics), encoding="utf-8")
    total = statistics.totals.total()
    print(f"{total} relations, {len(statistics.totals)} predicates → {TARGET.name}")


if __name__ == "__main__":
    main()
