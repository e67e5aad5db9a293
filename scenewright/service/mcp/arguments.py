"""Arguments of the tools: their descriptions are all that an agent reads of them."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from scenewright.config.model_identity import UNKNOWN
from scenewright.config.options import (
    MAX_TEXT,
    Count,
    ImageChoice,
    LimitChoice,
    ModelChoice,
    RunOptions,
    SentenceReader,
)
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.schemas import (
    EditRequest,
    IdempotencyKey,
    ModelName,
    RefinementRequest,
    SceneInput,
    Status,
)
from scenewright.tools.director import Arguments

MAX_WAIT = 300.0
"""Longest wait of one call, seconds."""
WAIT = 45.0
"""Seconds that a call waits if it is not told otherwise: most clients give up after 60."""


_Model = TypeVar("_Model", SceneInput, RefinementRequest, EditRequest)


class _Waiting(Arguments):
    wait_seconds: float = Field(default=WAIT, ge=0.0, le=MAX_WAIT)
    """Longest wait."""


class _Run(Arguments):
    run: str = Field(min_length=1, max_length=60)
    """Id of the run."""


class _Scene(Arguments):
    scene: SceneGraph | None = None
    """The scene as a graph. Give scene, triplets or text."""
    triplets: str | None = Field(default=None, max_length=MAX_TEXT)
    """The scene as triplets: red ball on table; dog left of table."""
    text: str | None = Field(default=None, max_length=MAX_TEXT)
    """The scene in a sentence: A red ball is on a table."""
    reader: SentenceReader | None = None
    """Parser of text."""

    def given(self) -> SceneInput:
        """Return the scene as the service takes it; ``Unprocessable`` unless it is given once."""
        return _checked(
            SceneInput, {"scene": self.scene, "triplets": self.triplets, "text": self.text}
        )


class _Begin(_Scene):
    profile: str | None = Field(default=None, max_length=200)
    """Profile whose models draw and judge; left out: the service's default."""
    idempotency_key: IdempotencyKey | None = None
    """The same key and arguments give the same run."""

    def request(self) -> RefinementRequest:
        """Return the run that is asked for; ``Unprocessable`` unless the scene is given once."""
        fields = set(RefinementRequest.model_fields) & set(type(self).model_fields)
        return _checked(RefinementRequest, {name: getattr(self, name) for name in fields})


class RefineScene(RunOptions, _Begin, _Waiting):
    """Draw a scene, check every fact of it with a panel of judges, and repair what is missing.

    Begins a run and waits for it. After wait_seconds the reply tells the run's id and how far it
    is; the run goes on: call get_run for the rest.
    """


class GetRun(_Run, _Waiting):
    """Show how far a run is: facts with verdicts, scores, what is missing, the kept picture.

    Waits until the run stands still (paused, finished, failed, cancelled) or wait_seconds are over.
    """

    wait_seconds: float = Field(default=0.0, ge=0.0, le=MAX_WAIT)
    """Seconds to wait for the run at most; 0: tell at once."""
    round: int | None = Field(default=None, ge=0)
    """Tell of the picture of this round; left out: of the one that is kept."""


class ListRuns(Arguments):
    """Your runs, newest first."""

    status: list[Status] = Field(default=[], max_length=6)
    """Only runs that stand so; empty: all."""
    words: str = Field(default="", max_length=200)
    """Words that the scene's description must contain."""
    limit: int = Field(default=20, ge=1, le=100)
    """Most runs."""
    before: str | None = Field(default=None, max_length=60)
    """``next`` of the list before; left out: the newest."""


class CancelRun(_Run):
    """Stop a run at once. What it has is kept, and resume_run goes on with it."""


class ResumeRun(_Run, _Waiting):
    """Go on with a paused, failed or cancelled run as it is; waits as refine_scene does."""


class EditRun(_Run, _Waiting):
    """Correct a paused or ended run; it goes on from there. Waits for it as refine_scene does."""

    missing: SceneGraph | None = None
    """Missing graph of the picture as you see it; left out: what the judges found missing."""
    verdicts: dict[str, Literal["yes", "no"]] = Field(default={})
    """Corrections by fact id: whether the picture holds the fact."""
    add: str | None = Field(default=None, max_length=MAX_TEXT)
    """Facts that the scene is to have too, as triplets: hat on dog."""
    base: int | None = Field(default=None, ge=0)
    """Round of the picture to go on from; left out: the kept one."""
    rounds: int = Field(default=3, ge=1, le=100)
    """Pictures that may be drawn from here on."""
    note: str = Field(default="", max_length=2000)
    """Why, for the run's record."""
    idempotency_key: IdempotencyKey | None = None
    """The same key with the same edit changes nothing again."""

    def request(self) -> EditRequest:
        """Return the edit as the service takes it."""
        fields = set(EditRequest.model_fields) & set(type(self).model_fields)
        return _checked(EditRequest, {name: getattr(self, name) for name in fields})


class OpenScene(LimitChoice, ImageChoice, ModelChoice, _Begin):
    """Direct the drawing of a scene yourself: begins a run whose every step you decide.

    The reply has the run's id, the facts that judges will check, and the limits. Then call
    generate_image, verify_facts, look, refine_with_reference and inpaint with that id as you see
    fit; accept ends the run.
    """

    rounds: Count = 3
    """Most images of the whole scene."""
    model: ModelName | None = None
    """Which language model you are, by its maker's name, for example claude-opus-5: a model that
    directs must not be a judge of the report. Left out: not known, and the result says so."""

    def request(self) -> RefinementRequest:
        """Return the run that is asked for; ``Unprocessable`` unless the scene is given once."""
        asked = super().request().model_dump(exclude_unset=True)
        return _checked(RefinementRequest, {**asked, "director": self.model or UNKNOWN})


class ScoreImage(_Scene):
    """Ask a panel of judges which facts of a scene hold in a picture of yours."""

    image: str = Field(min_length=1)
    """Its file in base64, a data URL, or scenewright://runs/ID/images/HASH."""
    profile: str | None = Field(default=None, max_length=200)
    """Profile whose judges answer; left out: the service's default."""


class ParseScene(_Scene):
    """Read a scene into a graph, and list the facts that would be checked. Nothing is drawn."""

    profile: str | None = Field(default=None, max_length=200)
    """Profile whose language model reads the text; left out: rules do."""


class Directed(_Run, _Waiting):
    """Arguments that every tool of a director takes over MCP besides its own."""


@cache
def directed(arguments: type[Arguments]) -> type[Arguments]:
    """Return ``arguments`` of a director's tool with the run that it works on.

    Their source is not looked for: descriptions of fields are those of the bases already, and the
    search goes through all modules that are loaded.
    """
    own = {
        "__module__": arguments.__module__,
        "__doc__": arguments.__doc__,
        "model_config": ConfigDict(use_attribute_docstrings=False),
    }
    bases = (arguments, Directed)
    return types.new_class(arguments.__name__, bases, exec_body=lambda body: body.update(own))


def _checked(kind: type[_Model], values: dict[str, Any]) -> _Model:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise Unprocessable(first_problem(error)) from error
