"""Parts of a pipeline that are made here, because the library makes them only with torchvision."""

from __future__ import annotations

from typing import Any

from scenewright.providers.hub.needs import INDEX
from scenewright.tools.backends.model_folder import ModelFolder, read_json


def made_here(model: ModelFolder) -> dict[str, Any]:
    """The parts of ``model`` that are not left to the library, by name."""
    index = read_json(model.folder / INDEX)
    if list(index.get("processor") or ()) != ["transformers", "Qwen2VLProcessor"]:
        return {}
    from transformers import Qwen2VLProcessor

    from scenewright.agents.judges.processors import pictures_alone

    return {"processor": pictures_alone(Qwen2VLProcessor, model.folder / "processor")}
