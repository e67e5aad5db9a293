"""scenewright's nodes for ComfyUI: Refine Scene, Score Image, Scene Graph.

ComfyUI looks for ``NODE_CLASS_MAPPINGS`` first and takes no notice of ``comfy_entrypoint`` beside
them, so only one of the two is given: the newer one where this ComfyUI has it.
"""

from __future__ import annotations

try:
    from comfy_api.latest import ComfyExtension, io  # noqa: F401
except ImportError:
    from .v1 import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

    __all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
else:
    from .v3 import comfy_entrypoint

    __all__ = ["comfy_entrypoint"]
