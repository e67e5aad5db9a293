"""Parts of a pipeline that are made here, because the library makes them only with torchvision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scenewright.hub.needs import INDEX
from scenewright.tools.backends.model_folder import ModelFolder, read_json


def made_here(model: ModelFolder) -> dict[str, Any]:
    """The parts of ``model`` that are not left to the library, by name."""
    index = read_json(model.folder / INDEX)
    if list(index.get("processor") or ()) == ["transformers", "Qwen2VLProcessor"]:
        return {"processor": qwen_processor(model.folder / "processor")}
    return {}


def qwen_processor(folder: Path) -> Any:
    """What makes a prompt with pictures into the input of Qwen2.5-VL, for pictures alone.

    The library's own also takes videos, for which it needs torchvision. The pictures go through
    PIL in every case: the same picture gives the same numbers with and without torchvision.
    """
    from transformers import AutoTokenizer, Qwen2VLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    class PictureProcessor(Qwen2VLProcessor):  # type: ignore[misc]
        def __init__(self, image_processor: Any, tokenizer: Any) -> None:
            # The library's own constructor asks for a video processor.
            self.image_processor, self.tokenizer = image_processor, tokenizer
            self.video_processor = self.chat_template = self.audio_tokenizer = None
            self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
            self.image_token_id, self.video_token_id = tokenizer.convert_tokens_to_ids(
                [self.image_token, self.video_token]
            )
            self.image_ids, self.video_ids = [self.image_token_id], [self.video_token_id]

    return PictureProcessor(
        Qwen2VLImageProcessorPil.from_pretrained(folder, local_files_only=True),
        AutoTokenizer.from_pretrained(folder, local_files_only=True),
    )
