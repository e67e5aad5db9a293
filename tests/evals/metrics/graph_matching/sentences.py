"""A small random model of sentences in the published layout."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = ("red", "dark", "blue", "dog", "ball", "left", "of", "person", "holding", "a", "##s")


def save_sentence_model(folder: Path, seed: int = 0, pooling: str = "mean_tokens") -> Path:
    """BERT of two layers and 16 numbers, its tokenizer, and the files that tell of pooling."""
    vocabulary = {w: at for at, w in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    types = ("Transformer", "Pooling", "Normalize")
    (folder / "modules.json").write_text(
        json.dumps([{"type": f"sentence_transformers.models.{name}"} for name in types])
    )
    (folder / "1_Pooling").mkdir()
    ways = {
        f"pooling_mode_{way}": way == pooling for way in ("mean_tokens", "cls_token", "lasttoken")
    }
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, **ways})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8}))
    return folder
