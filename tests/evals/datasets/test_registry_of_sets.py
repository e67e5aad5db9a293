"""Sets by name: options, paths, and where fetched files lie."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from scenewright.evals.datasets import registry
from scenewright.evals.datasets.base import (
    CATALOGUE,
    FOLDER_VARIABLE,
    DatasetError,
    DatasetSpec,
    SampleSpec,
    sources,
)
from scenewright.evals.datasets.registry import loader_of, open_dataset, place_of

TSV = "Prompt\tCategory\tChallenge\tNote\na red ball\tArtifacts\tBasic\t\n"


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_options_of_a_set_are_those_its_loader_takes(name: str) -> None:
    loader = CATALOGUE[name]
    make = getattr(import_module(f"scenewright.evals.datasets.{loader.module}"), loader.function)
    parameters = inspect.signature(make).parameters
    named = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        assert set(named) <= set(loader.options)
    else:
        assert set(named) == set(loader.options)


def test_every_set_is_in_the_catalogue_and_every_source_is_a_set() -> None:
    assert set(sources()) <= set(CATALOGUE)


def test_unknown_names_and_options_are_refused_with_those_there_are() -> None:
    with pytest.raises(DatasetError, match=r"no set 'dgs': use one of .*dsg"):
        open_dataset(DatasetSpec(name="dgs"))
    with pytest.raises(DatasetError, match="miniature has no option 'N': it has n, seed"):
        open_dataset(DatasetSpec(name="miniature", options={"N": 3}))


def test_a_path_that_is_not_there_is_named() -> None:
    with pytest.raises(DatasetError, match="/no/where: check the path of dsg"):
        open_dataset(DatasetSpec(name="dsg", path="/no/where"))


def test_relative_paths_begin_at_the_root_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "PartiPrompts.tsv").write_text(TSV)
    spec = DatasetSpec(name="partiprompts", path="sets")
    assert [item.prompt for item in open_dataset(spec, tmp_path)] == ["a red ball"]


def test_without_a_path_fetched_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert place_of("partiprompts") is None
    with pytest.raises(DatasetError, match="scenewright data get partiprompts"):
        open_dataset(DatasetSpec(name="partiprompts"))
    (tmp_path / "partiprompts").mkdir()
    (tmp_path / "partiprompts" / "PartiPrompts.tsv").write_text(TSV)
    assert place_of("partiprompts") == tmp_path / "partiprompts"
    assert len(list(open_dataset(DatasetSpec(name="partiprompts")))) == 1


def test_sample_and_limit_are_applied_in_this_order() -> None:
    spec = DatasetSpec(
        name="miniature",
        options={"n": 12},
        sample=SampleSpec(counts={"hard": 3}),
        limit=2,
    )
    found = open_dataset(spec)
    assert [item.level for item in found] == ["hard", "hard"]
    whole = registry.open_whole(spec)
    assert len(list(whole)) == 12
    assert found.fingerprint != whole.fingerprint


def test_a_loader_is_found_by_name() -> None:
    assert loader_of("table").needs_path
    with pytest.raises(DatasetError, match="there is no set 'tabel'"):
        loader_of("tabel")
