"""Pictures as parts of a message to a language model."""

from __future__ import annotations

from PIL import Image

from scenewright.agents.judges.pictures import ImagePreparation, prepare


async def as_content(image: Image.Image, preparation: ImagePreparation) -> dict[str, str]:
    """``image`` as a content block of LangChain; raises ``ImageError`` if it cannot be sent."""
    picture = await prepare(image, preparation)
    return {"type": "image", "base64": picture.base64, "mime_type": picture.media_type}
