"""Likeness by sentence embeddings: the model, what is kept of it, and what to do without it."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.embeddings import (
    DEFAULT_MODEL,
    SentenceModel,
    SentenceSimilarity,
    SimilaritySettings,
    Vector,
    find_sentence_model,
    similarity_of,
)
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.metrics.graph_matching.text_similarity import MatchingError, TextSimilarity
from scenewright.evals.store.journal import open_journal
from tests.evals.metrics.graph_matching.graphs import graph, thing
from tests.evals.metrics.graph_matching.sentences import save_sentence_model

TEXTS = ("red", "dark red", "blue dogs", "person left of dog", "a ball " * 12, "🐶")
PAIRS = [(a, b) for a in TEXTS for b in TEXTS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sentence_model(tmp_path_factory.mktemp("sentences") / "small-model")


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No model but those in folders."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("scenewright.evals.metrics.graph_matching.embeddings._CARRIED", {})


def by_hand(folder: Path, text: str, way: str = "mean") -> torch.Tensor:
    """One text through transformers' own calls, without padding."""
    network = AutoModel.from_pretrained(folder).eval()
    given = AutoTokenizer.from_pretrained(folder)(
        text.strip(), return_tensors="pt", truncation=True, max_length=8
    )
    with torch.no_grad():
        tokens = network(**given).last_hidden_state[0]
    return torch.nn.functional.normalize(tokens[0] if way == "cls" else tokens.mean(0), dim=0)


def test_it_is_the_cosine_of_pooled_tokens(model: Path) -> None:
    found = SentenceSimilarity(str(model)).similarities(PAIRS)
    vectors = {text: by_hand(model, text) for text in TEXTS}
    expected = [max(0.0, float(vectors[a] @ vectors[b])) for a, b in PAIRS]
    assert found == pytest.approx(expected, abs=2e-5)
    assert len(set(found.round(3))) > 5


def test_it_holds_to_the_port(model: Path) -> None:
    similarity = SentenceSimilarity(str(model))
    assert isinstance(similarity, TextSimilarity)
    found = similarity.similarities(PAIRS).reshape(len(TEXTS), len(TEXTS))
    assert np.array_equal(found, found.T)
    assert found.min() >= 0
    assert found.max() <= 1
    assert (np.diag(found) == 1).all()
    assert similarity.similarities([("Dark  RED", "dark red"), ("a", "A")]).tolist() == [1, 1]
    assert similarity.similarities([]).shape == (0,)


def test_pooling_is_the_folders(model: Path, tmp_path: Path) -> None:
    other = save_sentence_model(tmp_path / "cls", pooling="cls_token")
    vector = SentenceModel(other, "cpu").encode(["dark red"])[0]
    assert vector == pytest.approx(by_hand(other, "dark red", "cls").numpy(), abs=1e-5)
    assert vector != pytest.approx(SentenceModel(model, "cpu").encode(["dark red"])[0], abs=1e-2)


def test_a_vector_is_the_same_in_any_batch(model: Path) -> None:
    loaded = SentenceModel(model, "cpu")
    together = loaded.encode(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert loaded.encode([text])[0] == pytest.approx(vector, abs=1e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded, as they come."""
    found: list[str] = []
    whole = SentenceModel.encode

    def encode(self: SentenceModel, texts: Sequence[str]) -> Vector:
        found.extend(texts)
        return whole(self, texts)

    monkeypatch.setattr(SentenceModel, "encode", encode)
    return found


def test_each_text_is_encoded_once_and_a_later_process_none(
    model: Path, tmp_path: Path, encoded: list[str]
) -> None:
    store = tmp_path / "cache" / "vectors.sqlite"
    first = SentenceSimilarity(str(model), store=store)
    found = first.similarities(PAIRS)
    first.similarities([("RED", "Dark red"), ("red", "red")])
    second = SentenceSimilarity(str(model), store=store)
    assert np.array_equal(second.similarities(PAIRS), found)
    assert sorted(encoded) == sorted(text.strip() for text in TEXTS)
    assert second.id == first.id


def test_vectors_of_another_model_are_not_taken(
    model: Path, tmp_path: Path, encoded: list[str]
) -> None:
    store = tmp_path / "vectors.sqlite"
    SentenceSimilarity(str(model), store=store).similarities(PAIRS)
    encoded.clear()
    folder = save_sentence_model(tmp_path / "small-model", seed=1)
    other = SentenceSimilarity(str(folder), store=store)
    other.similarities(PAIRS)
    assert len(encoded) == len(TEXTS)
    assert other.id != SentenceSimilarity(str(model)).id


def test_vectors_that_were_spoilt_are_encoded_again(
    model: Path, tmp_path: Path, encoded: list[str]
) -> None:
    store = tmp_path / "vectors.sqlite"
    found = SentenceSimilarity(str(model), store=store).similarities(PAIRS)
    with sqlite3.connect(store) as db:
        db.execute("UPDATE vectors SET vector = x'00' WHERE image = 'red'")
        db.execute("UPDATE vectors SET vector = ? WHERE image = '🐶'", (b"\xff" * 64,))
    encoded.clear()
    again = SentenceSimilarity(str(model), store=store).similarities(PAIRS)
    assert again == pytest.approx(found, abs=2e-5)
    assert sorted(encoded) == ["red", "🐶"]


@pytest.mark.parametrize("what", ["a folder", "no database"])
def test_without_a_disk_it_goes_on_and_says_so(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    store = tmp_path / "vectors.sqlite"
    if what == "a folder":
        store.mkdir()
    else:
        store.write_text("this is no database " * 100)
    similarity = SentenceSimilarity(str(model), store=store)
    expected = SentenceSimilarity(str(model)).similarities(PAIRS)
    assert np.array_equal(similarity.similarities(PAIRS), expected)
    similarity.similarities([("one", "two")])
    assert [str(store) in record.getMessage() for record in caplog.records] == [True]


def _keep(path: Path, start: int) -> None:
    with open_journal(path) as store:
        for at in range(start, start + 40):
            store.put_vectors("m", [f"{at}:{n}" for n in range(5)], np.full((5, 4), at, np.float32))


def test_several_processes_keep_vectors_at_once(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_keep, args=(path, start)) for start in (0, 20, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with open_journal(path) as store:
        texts = [f"{at}:{n}" for at in range(80) for n in range(5)]
        found = store.known_vectors("m", [*texts, "none"], 4)
        assert {text: float(vector[0]) for text, vector in found.items()} == {
            text: float(text.partition(":")[0]) for text in texts
        }
        assert store.known_vectors("other", texts, 4) == {}
        assert store.known_vectors("m", texts, 5) == {}


def test_a_store_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EvalError, match="cannot be made"):
        open_journal(tmp_path / "file" / "vectors.sqlite")


@pytest.mark.usefixtures("lost")
def test_a_model_that_is_not_here_is_told_with_the_remedies() -> None:
    with pytest.raises(MatchingError) as error:
        similarity_of("sentence-transformers:all-MiniLM-L6-v2")
    said = str(error.value)
    assert "sentence-transformers/all-MiniLM-L6-v2 is not on this machine" in said
    assert "scenewright models pull local:sentence-transformers/all-MiniLM-L6-v2" in said
    assert "lexical" in said
    with pytest.raises(MatchingError, match="names no model"):
        similarity_of("sentence-transformers:a/b/c")
    assert similarity_of("auto").id == "lexical@2"


def test_the_hubs_files_are_found_by_name(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: None
) -> None:
    storage = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs" / "main").write_text("c0ffee")
    shutil.copytree(model, storage / "snapshots" / "c0ffee")
    assert find_sentence_model(DEFAULT_MODEL) == storage / "snapshots" / "c0ffee"
    similarity = similarity_of("auto", SimilaritySettings(store=None))
    assert similarity.id.startswith("sentence-transformers:all-MiniLM-L6-v2#")
    # The same files are the same model, wherever they lie.
    assert similarity.id.split("#")[1] == SentenceSimilarity(str(model)).id.split("#")[1]


def test_a_folder_is_called_by_its_name(model: Path) -> None:
    assert SentenceSimilarity(str(model)).id.startswith("sentence-transformers:small-model#")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "works with Dense"),
        ("1_Pooling/config.json", {"pooling_mode_lasttoken": True}, "pools by pooling_mode_last"),
        ("modules.json", {"not": "a list"}, "fetch the model again"),
        ("config.json", {"model_type": "bert"}, "says nothing of hidden_size"),
    ],
)
def test_a_model_that_works_otherwise_is_refused(
    model: Path, tmp_path: Path, file: str, content: object, says: str
) -> None:
    folder = shutil.copytree(model, tmp_path / "other")
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(MatchingError, match=says):
        SentenceSimilarity(str(folder)).similarities([("red", "blue")])


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MatchingError, match="is not a model of sentences"):
        SentenceSimilarity(str(tmp_path))


def test_graphs_are_matched_with_it(model: Path) -> None:
    a = graph(thing("a", color="red"), thing("b", color="blue"), edges="a near b")
    match = match_graphs(a, a, SentenceSimilarity(str(model)))
    assert match.mapping == {"a": "a", "b": "b"}
    assert match.similarity.startswith("sentence-transformers:small-model#")


def test_the_published_model_knows_meanings(tmp_path: Path) -> None:
    if find_sentence_model(DEFAULT_MODEL) is None:
        pytest.skip(f"{DEFAULT_MODEL} is not on this machine")
    similarity = similarity_of("auto", SimilaritySettings(store=tmp_path / "vectors.sqlite"))
    assert similarity.id.startswith(f"sentence-transformers:{DEFAULT_MODEL}#")
    near, far = similarity.similarities([("crimson", "red"), ("crimson", "wooden")])
    assert near > far + 0.2
