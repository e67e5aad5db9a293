"""The director's tools by name, and as LangChain tools: the one place where they are wrapped."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import StructuredTool, ToolException
from pydantic import ValidationError

from scenewright.core.ports.backend import BackendFeatures
from scenewright.graphs.director_state import ACCEPT
from scenewright.graphs.director_toolset import DirectorToolset
from scenewright.tools.generate import GenerateImage, Inpaint, RefineWithReference
from scenewright.tools.look import Look
from scenewright.tools.replies import Arguments, ToolError, ToolReply, content_of, wrong_arguments
from scenewright.tools.verify import Accept, VerifyFacts


@dataclass(frozen=True, slots=True)
class DirectorTool:
    """A tool of the desk, ready to be offered in any form."""

    name: str
    """What it is called."""
    about: str
    """What it does, for a language model."""
    arguments: type[Arguments]
    """What it takes."""
    use: Callable[[Any], Awaitable[ToolReply]]
    """Does it; raises ``ToolError``."""


def available_tools(toolset: DirectorToolset) -> list[DirectorTool]:
    """The tools that the backend of the desk's run can serve."""
    features = toolset.context.backend.features
    every: list[tuple[str, type[Arguments], Callable[[Any], Awaitable[ToolReply]]]] = [
        ("generate_image", GenerateImage, toolset.generate_image),
        ("verify_facts", VerifyFacts, toolset.verify_facts),
        ("look", Look, toolset.look),
        ("refine_with_reference", RefineWithReference, toolset.refine_with_reference),
        ("inpaint", Inpaint, toolset.inpaint),
        (ACCEPT, Accept, toolset.accept),
    ]
    return [
        DirectorTool(name, inspect.cleandoc(arguments.__doc__ or ""), arguments, use)
        for name, arguments, use in every
        if unsupported_tool_reason(name, features) is None
    ]


def unsupported_tool_reason(name: str, features: BackendFeatures) -> str | None:
    """Why a backend cannot serve the tool of that name; None if it can."""
    if name == "refine_with_reference" and not features.references:
        return "the backend takes no reference images"
    if name == "inpaint" and not features.edit:
        return "the backend cannot keep a part of a picture"
    return None


def langchain_tool(tool: DirectorTool, previews: bool = True) -> StructuredTool:
    """``tool`` for LangChain: its content is the reply's JSON and, with ``previews``, the picture.

    What it could not do is told as the content of a message with the status ``error``.
    """

    async def used(**given: Any) -> Any:
        try:
            reply = await tool.use(tool.arguments.model_validate(given))
        except ToolError as error:
            raise ToolException(str(error)) from error
        return content_of(reply.text, reply.picture if previews else None)

    def told(error: ValidationError | Any) -> str:
        return wrong_arguments(tool.name, error)

    return StructuredTool.from_function(
        coroutine=used,
        name=tool.name,
        description=tool.about,
        args_schema=tool.arguments,
        infer_schema=False,
        handle_tool_error=True,
        handle_validation_error=told,
    )


def shown_again(
    toolset: DirectorToolset,
    tool: str,
    arguments: dict[str, Any],
    outcome: str,
    previews: bool = True,
) -> Any:
    """The content of the message in which ``tool`` told ``outcome``, its picture included."""
    if not previews:
        return outcome
    try:
        picture = toolset.show(tool, arguments, json.loads(outcome))
    except LookupError:
        return outcome
    return content_of(outcome, picture)
