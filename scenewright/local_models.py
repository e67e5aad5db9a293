"""Models on this machine, built from their names: what a pipeline or a judge of a profile is."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from scenewright.agents.judges.base import Judge
from scenewright.profile_specs import BackendSpec
from scenewright.tools.backends.base import ImageBackend

# Imports of the model libraries, begun in several threads at once, trip over each other.
_IMPORTING = threading.Lock()

MINIATURE_WEIGHTS = Path(__file__).parent / "miniature" / "weights"


def make_backend(spec: BackendSpec) -> ImageBackend:
    """A new backend of ``spec``; raises ``BackendError`` if its files are not there."""
    # Imported here: a run with a scripted or remote backend must not load torch.
    with _IMPORTING:
        from scenewright.tools.backends.adapter import IPAdapterSource
        from scenewright.tools.backends.diffusers import DiffusersBackend
        from scenewright.tools.backends.pipeline import import_pipelines

        import_pipelines()
    options: dict[str, Any] = spec.model_dump(
        include={"device", "dtype", "scheduler", "variant", "offload", "compile", "slicing"}
    )
    options["default_size"] = spec.size
    if spec.model == "miniature":
        adapter = IPAdapterSource(repository=str(MINIATURE_WEIGHTS / "ip-adapter"))
        return DiffusersBackend(
            str(MINIATURE_WEIGHTS / "generator"), name="miniature", ip_adapter=adapter, **options
        )
    source = IPAdapterSource(**spec.adapter.model_dump()) if spec.adapter is not None else None
    return DiffusersBackend(spec.model, ip_adapter=source, **options)


def make_local_judge(model: str) -> Judge:
    """A new judge ``local:model``; raises ``JudgeError`` if its files are not there."""
    with _IMPORTING:
        from scenewright.agents.judges.local import LocalJudge

    if model.startswith("miniature/"):
        name = model.removeprefix("miniature/")
        return LocalJudge(MINIATURE_WEIGHTS / "judges" / name, name=model)
    return LocalJudge(model)
