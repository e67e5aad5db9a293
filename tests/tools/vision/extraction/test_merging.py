"""Crowds of one class become one node."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Detection, ExtractionError
from scenewright.tools.vision.detection.boxes import pad_box
from scenewright.tools.vision.extraction.building import MergeRule, groups_of, merge_detections

_SIDE = st.integers(0, 30)
DETECTIONS = st.lists(
    st.builds(
        lambda name, x, y, w, h, score: Detection(name, (x, y, x + w, y + h), score),
        st.sampled_from(["person", "sheep"]),
        _SIDE,
        _SIDE,
        st.integers(1, 12),
        st.integers(1, 12),
        st.floats(0.0, 1.0),
    ),
    max_size=9,
)


def overlap(a: Detection, b: Detection, padding: float) -> bool:
    one, two = pad_box(a.box, padding), pad_box(b.box, padding)
    across = min(one[2], two[2]) - max(one[0], two[0])
    down = min(one[3], two[3]) - max(one[1], two[1])
    return across > 0 and down > 0


@given(DETECTIONS, st.integers(2, 4), st.sampled_from([0.0, 0.1, 0.5]))
def test_groups_are_the_connected_parts_that_are_large_enough(
    detections: list[Detection], least: int, padding: float
) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(detections)))
    for a, b in itertools.combinations(range(len(detections)), 2):
        same = detections[a].name == detections[b].name
        if same and overlap(detections[a], detections[b], padding):
            graph.add_edge(a, b)
    expected = set()
    for part in nx.connected_components(graph):
        whole = frozenset(part)
        expected |= {whole} if len(whole) >= least else {frozenset([at]) for at in whole}
    found = groups_of(detections, MergeRule(least, padding))
    assert {frozenset(members) for members in found} == expected
    assert found == sorted(found)


@given(DETECTIONS)
def test_every_detection_is_in_one_thing(detections: list[Detection]) -> None:
    found = merge_detections(detections, MergeRule())
    assert len(found.owner) == len(detections)
    assert {*found.owner} == {one.id for one in found.things}
    for detection, owner in zip(detections, found.owner, strict=True):
        thing = next(one for one in found.things if one.id == owner)
        assert thing.detection.name == detection.name
        assert thing.detection.score >= detection.score
        left, top, right, bottom = thing.detection.box
        assert left <= detection.box[0]
        assert top <= detection.box[1]
        assert right >= detection.box[2]
        assert bottom >= detection.box[3]
    assert len(found.told) == sum(bool(one.members) for one in found.things)


def test_a_chain_is_one_group_and_a_pair_is_none() -> None:
    chain = [Detection("sheep", (x, 0, x + 12, 10)) for x in (0, 10, 20)]
    pair = [Detection("dog", (x, 30, x + 12, 40)) for x in (0, 10)]
    found = merge_detections([*chain, *pair], MergeRule(padding=0.0))
    assert [one.id for one in found.things] == ["sheep.1", "dog.1", "dog.2"]
    assert found.things[0].detection.box == (0.0, 0.0, 32.0, 10.0)
    assert found.things[0].members == tuple(chain)
    assert found.told[0].what == "3 × sheep"
    assert "sheep.1" in found.told[0].reason


def test_masks_are_united_if_all_have_one() -> None:
    def one(x: int, with_mask: bool = True) -> Detection:
        mask = np.zeros((8, 20), bool)
        mask[2:4, x : x + 5] = True
        return Detection("sheep", (x, 2, x + 5, 4), mask=mask if with_mask else None)

    whole = merge_detections([one(0), one(4), one(8)], MergeRule()).things[0].detection
    assert whole.mask is not None
    assert whole.mask.sum() == 2 * 13
    assert (
        merge_detections([one(0), one(4, False), one(8)], MergeRule()).things[0].detection.mask
        is None
    )


def test_nothing_is_merged_without_a_rule() -> None:
    crowd = [Detection("sheep", (0, 0, 9, 9))] * 4
    assert [one.id for one in merge_detections(crowd, None).things] == [
        f"sheep.{n}" for n in range(1, 5)
    ]
    with pytest.raises(ExtractionError, match="groups of 1"):
        MergeRule(least=1)
    with pytest.raises(ExtractionError, match="padding"):
        MergeRule(padding=-0.1)
