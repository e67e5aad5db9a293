"""The model card of the miniature models: from the benchmark's result to Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._kept import ROLES
from benchmarks._miniature_drawing import SCORES
from benchmarks._miniature_scenes import LEVELS
from benchmarks._miniature_weights import Training
from scenewright.core.facts import FACT_KINDS
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, SETTINGS, SIZE

LICENSE = "Apache-2.0"
WORLD = Path(__file__).parent / "templates" / "miniature_world.md"
"""What the world is and what it is for: text without figures."""
_NOTHING = "–"
_REGIONS = {
    "l1": "the whole picture",
    "l1.ground": "the ground",
    "l1.objects": "inside the boxes of things",
    "l1.edges": "within 2 pixels of an edge",
    "l1.thin": "thin parts of things (under 5 pixels)",
    "l1.pale": "pale parts of things",
}
_ARMS = {
    "prompt": "the prompt alone",
    "unrelated": "the prompt and a picture of something else in its place",
    "shown": "the prompt and a picture of the thing",
}
_SETS = {
    "all": "Any thing of the scene, drawn by lot",
    "absent": "Things that are not there without a reference, as both panels say",
    "miscoloured": "Things of another colour without a reference, as both panels say",
    "unnamed": "Things that the prompt leaves out",
}
_ROLE_WORDS = {
    "loop": "steers the loop",
    "report": "reports",
    "studies": "is in no panel of the default profile and serves studies of panels",
}
_RATES = ("sensitivity", "specificity", "balanced_accuracy", "ece")


def figure(value: Any, digits: int = 3, sign: bool = False) -> str:
    """A figure in words: ``0.912 [0.880, 0.941]`` where it has a spread; a dash where it is not."""
    form = f"{'+' if sign else ''}.{digits}f"
    if isinstance(value, Mapping):
        return f"{value['mean']:{form}} [{value['low']:{form}}, {value['high']:{form}}]"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:{form}}" if isinstance(value, float) else _NOTHING


def trend(gain: Any) -> str:
    """What the interval of a difference allows to say."""
    if not isinstance(gain, Mapping):
        return "was not compared"
    if gain["low"] > 0:
        return "rises"
    return "falls" if gain["high"] < 0 else "does not clearly change"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _between(figures: Mapping[str, Any], prefix: str, suffix: str = "") -> list[str]:
    """What stands between ``prefix`` and ``suffix`` in the keys, in their order."""
    return [
        key[len(prefix) : len(key) - len(suffix)]
        for key in figures
        if key.startswith(prefix) and key.endswith(suffix)
    ]


def _sizes(figures: Mapping[str, Any]) -> str:
    rows = [
        [
            "all, every file" if name == "total" else f"`{name}`",
            figure(figures.get(f"sizes.{name}.parameters")),
            figure(figures.get(f"sizes.{name}.mib"), 2),
        ]
        for name in _between(figures, "sizes.", ".mib")
    ]
    return (
        "Weights are safetensors in half precision. The limit for all files together is "
        f"{figure(figures.get('sizes.limit_mib'), 0)} MiB.\n\n"
        + table(["model", "parameters", "MiB"], rows)
    )


def _training(training: Training) -> str:
    rows = []
    for name, stages in training.items():
        if not stages:
            rows.append([f"`{name}`", *["not recorded"] * 4])
        for stage in stages:
            part = f" ({stage.part})" if stage.part else ""
            numbers = [f"{stage.steps:,}", f"{stage.batch:,}", f"{stage.seconds:,.0f}"]
            rows.append([f"`{name}`{part}", *numbers, stage.device])
    return (
        "Everything they learned from was drawn by this package. No photograph and no data set "
        "went in.\n\n" + table(["model", "steps", "batch", "seconds", "device"], rows)
    )


def _autoencoder(figures: Mapping[str, Any]) -> str:
    rows = [[words, figure(figures.get(f"autoencoder.{k}"), 2)] for k, words in _REGIONS.items()]
    return (
        "Held-out paintings, encoded and decoded: mean absolute error of 8-bit values (0–255).\n\n"
        + table(["where", "error"], rows)
        + f"\n\nPSNR: {figure(figures.get('autoencoder.psnr'), 1)} dB."
    )


def _levels(figures: Mapping[str, Any]) -> str:
    rows = [
        [level, role, figure(figures.get(f"levels.{level}.n"))]
        + [figure(figures.get(f"levels.{level}.{role}.{score}")) for score in SCORES]
        for level in LEVELS
        for role in ROLES
    ]
    cut = ", ".join(
        f"{level} {figure(figures.get(f'levels.{level}.prompts_cut'), 2)}" for level in LEVELS
    )
    return (
        "One drawing a held-out scene, from its composed prompt, without the loop, as the two "
        "panels of the profile judge it. Judges err too; their own figures are below.\n\n"
        + table(["level", "judges", "scenes", *SCORES], rows)
        + f"\n\nShare of prompts that were too long for the text encoder and were cut: {cut}."
    )


def _segmenter(figures: Mapping[str, Any]) -> str:
    rows = [
        [style, figure(figures.get(f"segmenter.{style}.iou"))]
        for style in _between(figures, "segmenter.", ".iou")
    ]
    return (
        "Says which kind of thing every pixel shows, and so where things are: a detector. Mean "
        "intersection over union of the kinds that are in a picture or seen in it, on "
        f"{figure(figures.get('segmenter.n'))} held-out paintings in each style.\n\n"
        + table(["pictures", "intersection over union"], rows)
    )


def _guidance(figures: Mapping[str, Any]) -> str:
    scales = sorted(_between(figures, "guidance.facts."), key=float)
    rows = [
        [
            scale,
            figure(figures.get(f"guidance.facts.{scale}")),
            figure(figures.get(f"guidance.gain.{scale}"), sign=True),
            trend(figures[f"guidance.gain.{scale}"]) if scale != scales[0] else _NOTHING,
            figure(figures.get(f"guidance.facts_loop.{scale}")),
        ]
        for scale in scales
    ]
    return (
        f"The same {figure(figures.get('guidance.n'))} scenes and seeds at every scale; "
        "the gain is against the scale before, scene by scene. At 0 the text has no say, 1 is the "
        "text without guidance. A run uses "
        f"{figure(figures.get('guidance.default'), 1)} unless its profile says otherwise.\n\n"
        + table(["guidance", "facts, report judges", "gain", "share", "facts, loop judges"], rows)
    )


def _adapter_set(figures: Mapping[str, Any], name: str, words: str) -> str:
    key = f"adapter.{name}"
    rows = [
        [
            arm_words,
            figure(figures[f"{key}.{arm}.appears"]),
            figure(figures[f"{key}.{arm}.facts"]),
        ]
        for arm, arm_words in _ARMS.items()
        if f"{key}.{arm}.appears" in figures
    ]
    for arm in _ARMS:
        if f"{key}.gain_over_{arm}.appears" in figures:
            gains = [
                figure(figures[f"{key}.gain_over_{arm}.{measure}"], sign=True)
                for measure in ("appears", "facts")
            ]
            rows.append([f"gain over {_ARMS[arm]}", *gains])
    count = figure(figures.get(f"{key}.n"))
    return f"**{words}** ({count} cases)\n\n" + table(["drawn from", "appears", "facts"], rows)


def _adapter(figures: Mapping[str, Any]) -> str:
    parts = [
        "The reference is a painting of one thing, in the place that the prompt gives it, with "
        f"λ = {figure(figures.get('adapter.weight'), 2)}, the default of a profile. "
        "*Appears* is how often the report judges see the thing (of a miscoloured one: its "
        "colour), *facts* the share of the "
        "scene's facts that hold. The arms share prompt and seed; the gains are paired. What is "
        "missing may come right by any change of the picture, so the picture of something else is "
        "the arm to compare with."
    ]
    parts += [
        _adapter_set(figures, name, words)
        for name, words in _SETS.items()
        if figures.get(f"adapter.{name}.n")
    ]
    parts.append(
        f"Against a picture of something else, the chance of an absent thing to appear "
        f"{trend(figures.get('adapter.absent.gain_over_unrelated.appears'))}, and that of a "
        f"miscoloured one to get its colour "
        f"{trend(figures.get('adapter.miscoloured.gain_over_unrelated.appears'))}. "
        f"With λ = 0 a share of {figure(figures.get('adapter.zero.same'), 2)} of "
        f"{figure(figures.get('adapter.zero.n'))} pictures was that of the prompt alone."
    )
    return "\n\n".join(parts)


def _judge_rows(figures: Mapping[str, Any], key: str, first: Sequence[str]) -> list[list[str]]:
    return [
        [*first, kind, figure(figures[f"{key}.{kind}.n"])]
        + [figure(figures.get(f"{key}.{kind}.{rate}")) for rate in _RATES]
        for kind in FACT_KINDS
        if f"{key}.{kind}.n" in figures
    ]


def _judges(figures: Mapping[str, Any]) -> str:
    rows = [
        row
        for name in _between(figures, "judges.", ".painted.object.n")
        for title in ("painted", "weathered")
        for row in _judge_rows(figures, f"judges.{name}.{title}", [f"`{name}`", title])
    ]
    roles = ", ".join(
        f"`{name}` {_ROLE_WORDS[figures[f'judges.{name}.role']]}"
        for name in _between(figures, "judges.", ".role")
    )
    return (
        f"On {figure(figures.get('judges.paintings'))} held-out paintings whose truth is exact, as "
        "painted and *weathered* (smeared, noisy, shifted in colour). Sensitivity is the share of "
        "true facts that are judged true, specificity that of false facts judged false, "
        "balanced accuracy their mean (0.5 is chance). ECE is the expected calibration error of "
        f"the probabilities (0 is best). Roles: {roles}.\n\n"
        + table(["judge", "pictures", "facts", "n", *map(_spaced, _RATES)], rows)
    )


def _labels(figures: Mapping[str, Any]) -> str:
    if "labels.pictures" not in figures:
        return "No pictures are labelled."
    counts = "; ".join(
        f"{kind}s {figures[f'labels.{kind}.true']} true, {figures[f'labels.{kind}.false']} false, "
        f"{figures[f'labels.{kind}.unclear']} unclear"
        for kind in FACT_KINDS
    )
    rates = ("accuracy", *_RATES[:2])
    rows = [
        [f"`{name}`", kind, figure(figures[f"labels.{name}.{kind}.n"])]
        + [figure(figures.get(f"labels.{name}.{kind}.{rate}")) for rate in rates]
        for name in _between(figures, "labels.", ".object.n")
        for kind in FACT_KINDS
        if f"labels.{name}.{kind}.n" in figures
    ]
    return (
        f"On {figures['labels.pictures']} pictures of the generator, labelled by eye (by "
        f"{figures['labels.seen_by']}; {counts}). Unclear facts and facts about absent things are "
        "left out, as a run does not ask the latter.\n\n"
        + table(["judge", "facts", "n", "agreement", "sensitivity", "specificity"], rows)
    )


def _spaced(name: str) -> str:
    return "ECE" if name == "ece" else name.replace("_", " ")


def card(result: Mapping[str, Any], training: Training) -> str:
    """The whole card from the result file of ``benchmarks.miniature`` and the training record."""
    figures: Mapping[str, Any] = result["figures"]
    sections: dict[str, str] = {
        "Models": _sizes(figures),
        "Training": _training(training),
        "Autoencoder": _autoencoder(figures),
        **({"Segmenter": _segmenter(figures)} if "segmenter.n" in figures else {}),
        "Text to image": _levels(figures),
        "Guidance": _guidance(figures),
        "References": _adapter(figures),
        "Judges on paintings": _judges(figures),
        "Judges on generated pictures": _labels(figures),
    }
    body = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    machine = result["machine"]
    return f"""\
# Model card of the miniature models

The embedded default models: a text-to-image model with an IP-Adapter, judges that answer questions
about its pictures, and a segmenter that finds the objects in them. This page says what they are
for, how they were trained, and how good they are. They know a dozen kinds of flat objects in six
colours and nothing else.

![Scenes of rising complexity by guidance, and every kind in every colour](images/grid.png)

{WORLD.read_text(encoding="utf-8").strip()}

## How it was measured

All figures were measured by `python -m benchmarks.miniature` on {result["date"]} at commit
`{result["commit"]}` ({machine["device"]}, torch {machine["torch"]}), on scenes that no training
saw. Brackets are 95 % bootstrap intervals over pictures or scenes. The command also writes this
page: edit `benchmarks/templates/miniature_world.md` and `benchmarks/_miniature_card.py` instead.

{body}

## Limits

- {len(KINDS)} kinds, {len(COLORS)} colours, {len(PREDICATES)} predicates, {len(SETTINGS)} settings,
  {SIZE}×{SIZE} pixels. Any other word is spelled by its letters and means nothing to the models.
- The judges were trained for this world's pictures and cannot judge others.
- Scores of the generator are the judges' answers, not the truth. Their error rates are given above;
  differences between scores are safer than the scores.

## Licence

Code and weights are under {LICENSE}, see [LICENSE](../LICENSE).
"""
