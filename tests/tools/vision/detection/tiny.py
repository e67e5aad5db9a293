"""Tiny detectors with random weights, of the same classes as real ones, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    MaskFormerConfig,
    MaskFormerForInstanceSegmentation,
    OneFormerConfig,
    OneFormerForUniversalSegmentation,
    Owlv2Config,
    Owlv2ForObjectDetection,
    OwlViTConfig,
    OwlViTForObjectDetection,
    PreTrainedTokenizerFast,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    YolosConfig,
    YolosForObjectDetection,
)
from transformers.models.eomt import EomtConfig, EomtForUniversalSegmentation
from transformers.models.eomt.image_processing_pil_eomt import EomtImageProcessorPil
from transformers.models.grounding_dino.image_processing_pil_grounding_dino import (
    GroundingDinoImageProcessorPil,
)
from transformers.models.mask2former.image_processing_pil_mask2former import (
    Mask2FormerImageProcessorPil,
)
from transformers.models.maskformer.image_processing_pil_maskformer import (
    MaskFormerImageProcessorPil,
)
from transformers.models.oneformer.image_processing_pil_oneformer import OneFormerImageProcessorPil
from transformers.models.owlv2.image_processing_pil_owlv2 import Owlv2ImageProcessorPil
from transformers.models.owlvit.image_processing_pil_owlvit import OwlViTImageProcessorPil
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

LABELS = {0: "dog", 1: "cat", 2: "sky-other-merged"}
SIDE = 64

_NAMES: dict[str, Any] = {
    "id2label": LABELS,
    "label2id": {label: at for at, label in LABELS.items()},
}
_TRANSFORMER: dict[str, int] = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
_MASK_TRANSFORMER: dict[str, int] = {
    "hidden_dim": 32,
    "encoder_feedforward_dim": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "num_attention_heads": 2,
    "dim_feedforward": 16,
    "num_queries": 6,
}
_BERT: dict[str, int] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
_EDGES = {"shortest_edge": SIDE, "longest_edge": SIDE}


def _swin() -> SwinConfig:
    return SwinConfig(
        image_size=SIDE,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def _size(processor: Any, **more: Any) -> Any:
    return processor(size={"height": SIDE, "width": SIDE}, **more)


def _tokenizer(folder: Path, words: tuple[str, ...] = ()) -> int:
    """A tokenizer of characters and the separators that BERT and CLIP need; returns its size."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *(chr(code) for code in range(32, 127))]
    vocabulary = {token: at for at, token in enumerate(tokens)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|[^\w\s]|\s"), behavior="isolated")
    if not words:
        made.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    return len(tokens)


def _sure(model: Any) -> Any:
    """``model`` with random weights that are sure of themselves: without, nothing passes."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "class_predictor" in name or "class_embed" in name:
                weights.mul_(300)
                if name.endswith("bias"):
                    weights[-1] = -1000
            elif ("mask_embed" in name and name.endswith("weight")) or "mask_head" in name:
                weights.mul_(30)
    return model


def mask2former(folder: Path) -> None:
    config = Mask2FormerConfig(
        backbone_config=_swin(),
        feature_size=32,
        mask_feature_size=32,
        **_MASK_TRANSFORMER,
        **_NAMES,
    )
    _sure(Mask2FormerForUniversalSegmentation(config)).save_pretrained(folder)
    _size(Mask2FormerImageProcessorPil).save_pretrained(folder)


def maskformer(folder: Path) -> None:
    from transformers import DetrConfig

    decoder = DetrConfig(d_model=32, num_queries=2, **_TRANSFORMER)
    config = MaskFormerConfig(
        backbone_config=_swin(), decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32,
        **_NAMES,
    )  # fmt: skip
    _sure(MaskFormerForInstanceSegmentation(config)).save_pretrained(folder)
    _size(MaskFormerImageProcessorPil).save_pretrained(folder)


def oneformer(folder: Path) -> None:
    size = _tokenizer(folder)
    config = OneFormerConfig(
        backbone_config=_swin(),
        text_encoder_width=16,
        text_encoder_context_length=24,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=size,
        text_encoder_proj_layers=1,
        text_encoder_n_ctx=2,
        conv_dim=32,
        mask_dim=32,
        query_dec_layers=1,
        task_seq_len=24,
        max_seq_len=24,
        **_MASK_TRANSFORMER,
        **_NAMES,
    )
    _sure(OneFormerForUniversalSegmentation(config)).save_pretrained(folder)
    made = _size(OneFormerImageProcessorPil, class_info_file=None, repo_path=None)
    # As published repositories have it: a table of classes that lies elsewhere on the hub.
    made.class_info_file = "classes.json"
    made.repo_path = "nobody/nothing"
    made.save_pretrained(folder)


def eomt(folder: Path) -> None:
    config = EomtConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        mlp_ratio=2,
        image_size=SIDE,
        patch_size=8,
        num_queries=2,
        num_blocks=1,
        num_upscale_blocks=1,
        **_NAMES,
    )
    _sure(EomtForUniversalSegmentation(config)).save_pretrained(folder)
    made = EomtImageProcessorPil(size=_EDGES, do_pad=True, do_split_image=False)
    made.save_pretrained(folder)


def segformer(folder: Path) -> None:
    config = SegformerConfig(
        image_size=SIDE,
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[8, 8],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 1],
        mlp_ratios=[2, 2],
        decoder_hidden_size=8,
        **_NAMES,
    )
    SegformerForSemanticSegmentation(config).save_pretrained(folder)
    _size(SegformerImageProcessorPil).save_pretrained(folder)


def yolos(folder: Path) -> None:
    config = YolosConfig(
        image_size=[SIDE, SIDE],
        patch_size=16,
        num_detection_tokens=6,
        **_BERT,
        **_NAMES,
    )
    YolosForObjectDetection(config).save_pretrained(folder)
    YolosImageProcessorPil(size=_EDGES).save_pretrained(folder)


def _owl(folder: Path, config: Any, model: Any, processor: Any) -> None:
    size = _tokenizer(folder)
    text = {
        **_BERT, "vocab_size": size, "max_position_embeddings": 32, "eos_token_id": 3,
        "bos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    vision = {**_BERT, "image_size": SIDE, "patch_size": 16}
    model(config(text_config=text, vision_config=vision, projection_dim=16)).save_pretrained(folder)
    _size(processor).save_pretrained(folder)


def owlvit(folder: Path) -> None:
    _owl(folder, OwlViTConfig, OwlViTForObjectDetection, OwlViTImageProcessorPil)


def owlv2(folder: Path) -> None:
    _owl(folder, Owlv2Config, Owlv2ForObjectDetection, Owlv2ImageProcessorPil)


def grounding_dino(folder: Path) -> None:
    words = ("dog", "cat", "fire", "hydrant")
    size = _tokenizer(folder, words)
    text = BertConfig(vocab_size=size, max_position_embeddings=64, **_BERT)
    config = GroundingDinoConfig(
        backbone_config=_swin(),
        text_config=text,
        num_queries=6,
        d_model=32,
        max_text_len=16,
        encoder_n_points=2,
        decoder_n_points=2,
        **_TRANSFORMER,
    )
    GroundingDinoForObjectDetection(config).save_pretrained(folder)
    GroundingDinoImageProcessorPil(size=_EDGES).save_pretrained(folder)


MAKERS: dict[str, Callable[[Path], None]] = {
    "mask2former": mask2former,
    "maskformer": maskformer,
    "oneformer": oneformer,
    "eomt": eomt,
    "segformer": segformer,
    "yolos": yolos,
    "owlvit": owlvit,
    "owlv2": owlv2,
    "grounding-dino": grounding_dino,
}
"""``model_type`` → what saves a tiny model of it into a folder."""


def save_tiny(kind: str, folder: Path, seed: int = 0) -> Path:
    """A tiny model of ``kind`` in ``folder``; the same ``seed``, the same weights."""
    torch.manual_seed(seed)
    MAKERS[kind](folder)
    return folder
