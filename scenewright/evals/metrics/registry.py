"""Metrics by name, and your own as ``module:function``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from scenewright.config.settings import Settings
from scenewright.evals.metrics.base import ItemMetric, Metric, MetricError, SetMetric
from scenewright.evals.metrics.options import COUNT_OPTION, PANEL_OPTIONS, QUESTION_OPTIONS
from scenewright.evals.metrics.plugins import call_plugin, is_plugin


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """How a metric is made."""

    module: str
    """Module below ``scenewright.evals`` that holds :attr:`function`."""
    function: str
    """``(settings: Settings | None, **options) -> Metric``; raises ``MetricError`` where weights
    are not there."""
    about: str
    """One line for lists."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option → what it means."""


_PASS: dict[str, str] = {
    "device": "auto (an accelerator if there is one), cpu, cuda or cuda:1",
    "batch": "pictures in one pass of the network (default 32)",
}
_MODEL: dict[str, str] = {
    **_PASS,
    "dtype": "precision of a transformers model: float32 (default), bfloat16 or float16",
    "preparation": "of a transformers model: squash (whole picture to its size) or processor "
    "(the model's own, which crops)",
}
_WEIGHTS = {"weights": "file of Inception-V3's weights (default: where torch's hub keeps them)"}


def _extractor(default: str, kinds: str) -> dict[str, str]:
    return {"extractor": f"{default} (default), {kinds}, or module:function of your own"}


METRICS: dict[str, MetricEntry] = {
    "sgscore": MetricEntry(
        "metrics.sgscore",
        "make",
        "share of the scene's objects and relations that the judges see (Scene-Bench, Eq. 4)",
        {"alpha": "weight of the objects, 0 to 1 (default: the evaluation's)"},
    ),
    "blind": MetricEntry(
        "studies.peers.blind_metric",
        "make",
        "RelationRecall of a language model that never sees the picture: the judges' floor",
        {
            "chat": "ACCOUNT:MODEL that guesses (none by default)",
            "folder": "where its replies are kept for other days (default: below ~/.cache)",
        },
    ),
    "psg": MetricEntry(
        "metrics.psg",
        "make",
        "PSG-style score: the graph seen in the picture against the scene, by graph edit distance",
        {
            "extractor": "what reads the graph: miniature, miniature-one-stage, "
            "one-stage:ACCOUNT:MODEL, two-stage:ACCOUNT:MODEL, FILE.toml, or module:function of "
            "your own (none by default)",
            "similarity": "how texts are compared: exact (default), lexical, "
            "sentence-transformers:MODEL, auto, or module:function of your own",
            "least": "similarity below which texts are not alike at all (default 0)",
            "background_weight": "what objects of the background weigh (default 0.5)",
            "saliency": "what tells the foreground: centre-and-size (default), birefnet, a folder "
            "or OWNER/NAME of its kind, or none",
            "threshold": "salience from which an object is in front (default 0.5)",
            "trust_remote_code": "whether a model of salience may run code that it brings "
            "(default false)",
            "seconds": "most time for one distance, then its bounds are given (default 10)",
            "folder": "where graphs are kept for other days (default: below ~/.cache)",
        },
    ),
    "ocr": MetricEntry(
        "metrics.ocr",
        "make",
        "object-centric realism: how real the largest objects look, 1 to 5 (Liang et al.)",
        {
            "scorer": "who scores objects, for example olip:miniature/olip-b or olip:FOLDER, or "
            "module:function of your own (none by default)",
            "detector": "what finds them: miniature, json:FILE, or transformers:FOLDER_OR_OWNER/"
            "NAME (none by default)",
            "most": "so many of the largest objects count (default 5)",
            "labels": "classes that are looked for, as A,B,…; scene: those of the item's scene "
            "(default: all that the detector knows)",
        },
    ),
    "real": MetricEntry(
        "studies.real.metric",
        "make",
        "REAL: share of visible parts that look as described, and realism of relations",
        {
            "judges": "who is asked, ACCOUNT:MODEL or a list (default: those of the profile)",
            "profile": "whose judges are asked (default: yours)",
            "schema": "file of schemas by class (default: made of each item's scene)",
            "key": "metadata that names an item's class (default label; else its category)",
            "score": "attributes (S_att, default) or relations (S_rel, normalised)",
            "wording": "published (default) or plain, for judges with few words",
            "asking": "waves (default) or together",
            "style": "folder of a style scorer, whose score is multiplied in (none by default)",
            "folder": "where answers are kept for other days (default: below ~/.cache)",
        },
    ),
    "preference": MetricEntry(
        "metrics.preference",
        "make",
        "how often chat judges that see two pictures find the drawn one to hold the facts better",
        {
            "judges": "who compares, ACCOUNT:MODEL or a list, in both orders (none by default)",
            "baseline": "the other picture: original (the item's photo, default), or a folder of "
            "pictures named by item id",
        },
    ),
    "clipscore": MetricEntry(
        "metrics.clipscore",
        "make",
        "cosine of picture and text, times 100 (Hessel et al., 2021)",
        {
            **_extractor(
                "openai/clip-vit-base-patch16", "miniature, a folder or OWNER/NAME of CLIP's kind"
            ),
            "scale": "factor of the cosine (default 100; 2.5 in the metric's own paper)",
            "prefix": 'words before each text (default none; "A photo depicts" in its paper)',
            **_MODEL,
        },
    ),
    "is": MetricEntry(
        "metrics.inception_score",
        "make",
        "Inception Score: how sure and how varied the classes are (Salimans et al., 2016)",
        {
            **_extractor("inception", "miniature"),
            "splits": "parts that are scored alone (default 10)",
            "shuffle": "whether chance deals pictures to the parts (default true)",
            "seed": "seed of that chance (default 0)",
            **_PASS,
            **_WEIGHTS,
        },
    ),
    "fid": MetricEntry(
        "metrics.frechet",
        "make_fid",
        "Fréchet distance to the originals by Inception-V3 (Heusel et al., 2017)",
        {
            **_extractor("inception", "miniature, a folder or OWNER/NAME"),
            **_MODEL,
            **_WEIGHTS,
        },
    ),
    "fd_dinov2": MetricEntry(
        "metrics.frechet",
        "make_fd_dinov2",
        "Fréchet distance to the originals by DINOv2 (Stein et al., 2023)",
        {
            **_extractor("facebook/dinov2-large", "miniature, a folder or OWNER/NAME"),
            **_MODEL,
            **_WEIGHTS,
        },
    ),
    "cmmd": MetricEntry(
        "metrics.cmmd",
        "make",
        "maximum mean discrepancy to the originals by CLIP (Jayasumana et al., 2024)",
        {
            **_extractor("openai/clip-vit-large-patch14-336", "miniature, a folder or OWNER/NAME"),
            "sigma": "width of the kernel (default 10)",
            "scale": "factor of the result (default 1000)",
            "estimator": "biased (default, as the authors' code) or unbiased (as their text)",
            "normalise": "whether vectors are brought to length 1 (default true)",
            **_MODEL,
            **_WEIGHTS,
        },
    ),
    "tifa": MetricEntry(
        "studies.peers.tifa",
        "make",
        "share of questions about the text that a picture answers as expected (Hu et al., 2023)",
        {
            **QUESTION_OPTIONS,
            "filter": "which of the model's questions stay: choice (default: those whose expected "
            "choice it picks from the text alone), both (and says in its own words), or none",
            "order": "of the choices that judges are offered: dealt (default) or given",
            **COUNT_OPTION,
            **PANEL_OPTIONS,
        },
    ),
    "dsg": MetricEntry(
        "studies.peers.dsg",
        "make",
        "share of a graph of yes/no questions that holds, none under a denied parent "
        "(Cho et al., 2024)",
        {**QUESTION_OPTIONS, **COUNT_OPTION, **PANEL_OPTIONS},
    ),
    "vqascore": MetricEntry(
        "studies.peers.vqascore",
        "make",
        "probability of a yes to whether the picture shows its text (Lin et al., 2024)",
        {
            **PANEL_OPTIONS,
            "template": 'the question, {text} where the text goes (default: Does this figure show "'
            '{text}"?)',
        },
    ),
    "soft_tifa": MetricEntry(
        "studies.peers.soft_tifa",
        "make",
        "mean probability of the right answers to the item's questions (Kamath et al., 2025)",
        {
            **QUESTION_OPTIONS,
            "mean": "arithmetic (default: how many hold) or geometric (whether all do)",
            **PANEL_OPTIONS,
        },
    ),
    "geneval": MetricEntry(
        "studies.peers.geneval",
        "make",
        "whether detectors find what is demanded: counts, colours, positions (Ghosh et al., 2023)",
        {
            "detectors": "who finds things: miniature, json:FILE, transformers:MODEL, or a list "
            "that votes (none by default)",
            "colors": "what names colours: clip:MODEL, judge:ACCOUNT:MODEL or "
            "judge-alone:ACCOUNT:MODEL (none by default)",
            "palette": "the colours that are told apart (default: the ten of the release)",
            "exact": "whether of a scene's classes there must not be more (default false)",
            "threshold": "detections of a confidence above this count (default 0.3)",
            "counting_threshold": "the same where something is excluded (default 0.9)",
            "position": "share of the boxes' sizes by which centres are apart (default 0.1)",
            "most": "most detections of a class (default 16)",
            "overlap": "boxes of a class that share so much of their union are one (default 1: "
            "never)",
            "aggregator": PANEL_OPTIONS["aggregator"],
            "folder": PANEL_OPTIONS["folder"],
        },
    ),
    "direct": MetricEntry(
        "studies.peers.direct",
        "make",
        "marks of 0 to 10 for consistency and quality, as in VIEScore (Ku et al., 2024)",
        {
            **PANEL_OPTIONS,
            "quality": "whether perceptual quality counts (default true)",
        },
    ),
}
"""Name → entry."""


def metric_of(
    name: str, options: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> Metric:
    """The metric of that name, or the one that the function ``module:function`` makes: it is
    called as ``function(settings, **options)``.

    Raises ``MetricError`` for an unknown name or option, or if what it needs is not on this
    machine.
    """
    options = dict(options or {})
    if is_plugin(name):
        own = call_plugin(name, settings, options=options)
        if not isinstance(own, ItemMetric | SetMetric):
            raise MetricError(
                f"{name} gives a {type(own).__name__}, which is no metric: it needs name, version, "
                "needs, higher_is_better, and score (of a picture) or extractor and compute (of a "
                "set)"
            )
        return own
    entry = METRICS.get(name)
    if entry is None:
        raise MetricError(
            f"there is no metric {name!r}: use one of {', '.join(sorted(METRICS))}, or your own "
            "as module:function"
        )
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        known = ", ".join(entry.options) or "none"
        raise MetricError(f"{name} has no option {unknown[0]!r}: it has {known}")
    make: Callable[..., Any] = getattr(
        import_module(f"scenewright.evals.{entry.module}"), entry.function
    )
    found: Metric = make(settings, **options)
    return found
