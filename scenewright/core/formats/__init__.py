"""Read and write scene graphs in several formats.

The formats: our own JSON, MegaSG, SG2Im, Visual Genome, triplet lines, NetworkX.

>>> from scenewright.core.formats import load_scene
>>> [r.predicate for r in load_scene("red ball on table; dog left of table").relations]
['on', 'left of']
"""

from scenewright.core.formats.base import MAX_BYTES, Format, FormatError, FormatWarning
from scenewright.core.formats.files import (
    FORMATS,
    detect_format,
    dump_scene,
    dump_scenes,
    load_scene,
    load_scenes,
    loads_scene,
    loads_scenes,
    text_of_source,
)
from scenewright.core.formats.graphs import from_networkx

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "Format",
    "FormatError",
    "FormatWarning",
    "detect_format",
    "dump_scene",
    "dump_scenes",
    "from_networkx",
    "load_scene",
    "load_scenes",
    "loads_scene",
    "loads_scenes",
    "text_of_source",
]
