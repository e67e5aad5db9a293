"""The director's desk: what its tools do, on the state of one run.

Each tool is a plain asynchronous method with one pydantic model as its argument; it returns a
:class:`ToolReply` or raises :class:`ToolError`. ``graphs/director_agent.py`` offers them to a
language model as LangChain tools.

The event log is the desk's only memory. A call that a kill cut off is made again by a desk that
knows no more than the first time: what came after the last told call (:meth:`DirectorDesk.past`)
belongs to the call at work, which finds it as done.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.runtime import Runtime

from scenewright.calls import ask
from scenewright.facts import Fact, missing_graph
from scenewright.graphs.accounts import totals_of
from scenewright.graphs.candidates import judge, over_budget, situation_of, tell_missing
from scenewright.graphs.director_state import DirectorContext, spent_calls
from scenewright.graphs.drawing import compose, draw
from scenewright.graphs.events import Event, Generated, Planned, Replied, ToolCalled
from scenewright.graphs.state import Candidate, emit, facts_for, improves
from scenewright.graphs.strategies.base import Redrawing
from scenewright.graphs.strategies.feedback import Feedback
from scenewright.graphs.strategies.places import planned
from scenewright.images import hash_of_image
from scenewright.profile_specs import DIRECTOR
from scenewright.regions import mask_of
from scenewright.scene import SceneGraph
from scenewright.tools.backends.base import BackendError, Start
from scenewright.tools.generate import GenerateImage, Inpaint, RefineWithReference
from scenewright.tools.look import Look, region_of_box, seen, shown
from scenewright.tools.replies import ToolError, ToolReply, preview
from scenewright.tools.verify import Accept, VerifyFacts, card_in_short
