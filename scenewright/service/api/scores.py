"""Scores of images: every fact of a scene asked of a picture."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Depends, File, Form, UploadFile
from pydantic import ValidationError

from scenewright.config.options import Name, SentenceReader, Text
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.core.validation import first_problem
from scenewright.service.api.common import Core
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.pictures import picture_of
from scenewright.service.core.requests import reading_json
from scenewright.service.core.schemas import RefinementRequest, SceneInput, ScoreResponse

router = APIRouter(prefix="/v1", tags=["scores"])

_ANY = SceneGraph()


@router.post("/scores", summary="Score a picture", response_model=ScoreResponse)
async def scores(
    service: Core,
    identity: Annotated[Identity, Depends(allow("score"))],
    image: Annotated[UploadFile, File(description="The picture: PNG, JPEG, WebP, GIF, BMP, TIFF.")],
    scene: Annotated[
        str | None, Form(max_length=1_000_000, description="The scene as a graph, in JSON.")
    ] = None,
    triplets: Annotated[Text | None, Form(description="The scene as triplets.")] = None,
    text: Annotated[Text | None, Form(description="The scene in a sentence.")] = None,
    profile: Annotated[Name | None, Form(description="Profile whose judges answer.")] = None,
    reader: Annotated[
        SentenceReader | None,
        Form(description="Parser of text: llm or rules; none: the profile's."),
    ] = None,
    judges: Annotated[
        list[Name] | None, Form(max_length=16, description="Judges in place of the profile's.")
    ] = None,
    realism: Annotated[
        bool, Form(description="Whether to ask besides how real each object looks.")
    ] = False,
) -> ScoreResponse:
    """Ask the judges of a profile every fact of a scene about a picture."""
    picture = await picture_of(image, service.settings)
    given = await asyncio.to_thread(_given, scene, triplets, text)
    request = RefinementRequest(
        scene=_ANY,
        profile=profile,
        reader=reader,
        judges=tuple(judges) if judges else None,
        realism=realism,
    )
    return await service.score(identity, picture, given, request)


def _given(scene: str | None, triplets: str | None, text: str | None) -> SceneInput:
    with reading_json("scene"):
        graph = None if scene is None else json.loads(scene)
        try:
            return SceneInput.model_validate({"scene": graph, "triplets": triplets, "text": text})
        except (ValidationError, SceneError) as error:
            told = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise Unprocessable(f"the scene is wrong: {told}") from error
