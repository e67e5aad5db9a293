"""A hub, an empty cache, and the models of the package as repositories of that hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants as constants
import pytest

from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from tests.providers.hub.loopback import Hub, serving

PAINTER, ADAPTER, JUDGE = "acme/painter", "acme/ip-adapter", "acme/judge"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache: an empty folder."""
    folder = tmp_path / "home" / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    return folder


@pytest.fixture
def hub(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that has a pipeline, an adapter with its encoder, and a judge."""
    with serving() as made:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", made.url)
        template = f"{made.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        made.add(PAINTER, MINIATURE_WEIGHTS / "generator", license="mit")
        made.add(ADAPTER, MINIATURE_WEIGHTS / "ip-adapter", license="apache-2.0")
        other = {"license": "other", "license_name": "acme-research"}
        made.add(JUDGE, MINIATURE_WEIGHTS / "judges" / "judge-a", **other)
        for name in (PAINTER, ADAPTER, JUDGE):
            card = "".join(f"{key}: {value}\n" for key, value in made.cards[name].items())
            made.repositories[name]["README.md"] = f"---\n{card}---\n# A model\n".encode()
            # Other formats of the same weights, which are not used.
            made.repositories[name]["pytorch_model.bin"] = b"pickled" * 1000
            made.repositories[name]["onnx/model.safetensors"] = b"converted" * 1000
        made.repositories[PAINTER]["unet/diffusion_pytorch_model.bin"] = b"pickled" * 1000
        yield made
