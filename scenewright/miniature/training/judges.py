"""Training recipes of the miniature judges, and their measure on held-out paintings.

``python -m scenewright.miniature.training.judges train judge-a`` trains or continues;
``… evaluate`` measures the judges of the weights folder and writes ``report.json``
beside each.

How good a judge is on held-out paintings, by kind of fact.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import LlavaForConditionalGeneration, LlavaProcessor

from scenewright.agents.judges.local import LocalJudge
from scenewright.agents.panel.aggregation import brier_score, expected_calibration_error
from scenewright.core.facts import FACT_KINDS, Answer
from scenewright.miniature.judge_model import JudgeShape, build_model, build_processor, save_judge
from scenewright.miniature.sampler import GROUNDS, Ground, sample_ground, sample_painting
from scenewright.miniature.training.judge_batch import Asker, Batch, make_batch, weather
from scenewright.miniature.training.judge_net import JudgeNet
from scenewright.miniature.training.judge_questions import KnownFact, ask_about
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    pick_device,
    to_pixels,
)
from scenewright.miniature.training.redrawn import RedrawnPaintings
from scenewright.miniature.truth import Painting

HELD_OUT = "held-out"
"""Begins the seeds of test paintings; training seeds begin with a number."""

TITLES = ("painted", "weathered", *GROUNDS)
"""Pictures that judges are measured on: of any size as painted and made worse, and harder ones."""

Scored = tuple[KnownFact, Answer]


def answerable(known: Sequence[KnownFact]) -> list[KnownFact]:
    """Return the facts that a run would ask and whose answer is beyond doubt.

    Parents hold, no pair whose relation is a matter of taste, one right option.
    """
    holding = {k.fact.id for k in known if k.holds}
    return [k for k in known if k.clear and holding.issuperset(k.fact.parents)]


def weathered(image: Image.Image, seed: int) -> Image.Image:
    """``image`` smeared, noisy and shifted in colour, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    pixels = weather(to_pixels([image]), generator, 1.0)[0]
    array = ((pixels.permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8).numpy()
    return Image.fromarray(array)


def figures_of(scored: Sequence[Scored]) -> dict[str, float | int]:
    """Return counts, accuracy figures of fact states, and calibration of probabilities.

    Accuracy, balanced accuracy, sensitivity and specificity of states; Brier score and calibration
    error (:func:`calibration_error`) of probabilities. Unscored answers are counted and otherwise
    left out. A figure without cases is left out: no sensitivity without true facts, no specificity
    without false ones.
    """
    rated = [(k.holds, a) for k, a in scored if a.probability is not None]
    sides = [
        [a.state == "yes" for h, a in rated if h],
        [a.state == "no" for h, a in rated if not h],
    ]
    shares = [sum(side) / len(side) for side in sides if side]
    result: dict[str, float | int] = {
        "n": len(scored),
        "true": len(sides[0]),
        "false": len(sides[1]),
        "unscored": len(scored) - len(rated),
    }
    for name, side in zip(("sensitivity", "specificity"), sides, strict=True):
        if side:
            result[name] = round(sum(side) / len(side), 4)
    if rated:
        result["accuracy"] = round(sum(map(sum, sides)) / len(rated), 4)
        result["balanced_accuracy"] = round(sum(shares) / len(shares), 4)
        pairs = [(a.probability or 0.0, h) for h, a in rated]
        result["brier"] = round(brier_score(*zip(*pairs, strict=True)), 4)
        result["ece"] = round(calibration_error(pairs), 4)
    return result


def calibration_error(pairs: Sequence[tuple[float, bool]], bins: int = 10) -> float:
    """Return the expected calibration error of (probability, fact holds) pairs.

    See :func:`~scenewright.agents.panel.aggregation.expected_calibration_error`. Raises
    ``ValueError`` without pairs.
    """
    if not pairs:
        raise ValueError("no probabilities: nothing was answered")
    probabilities, labels = zip(*pairs, strict=True)
    return expected_calibration_error(probabilities, labels, bins)


def known_of(rng: random.Random, ground: Ground | None = None) -> tuple[Painting, list[KnownFact]]:
    """Return a random painting, of ``ground`` or of any size, and what a run may ask about it.

    What is asked is partly not what the painting shows.
    """
    painting = sample_painting(rng) if ground is None else sample_ground(rng, ground)
    return painting, answerable(ask_about(rng, painting.truth, change=0.4))


async def _ask(judge: LocalJudge, n: int, seed: int, title: str) -> list[Scored]:
    scored: list[Scored] = []
    ground = next((one for one in GROUNDS if one == title), None)
    for at in range(n):
        painting, known = known_of(random.Random(f"{HELD_OUT}/{seed}/{at}"), ground)
        spoiled = title == "weathered"
        image = weathered(painting.image, seed * 100_003 + at) if spoiled else painting.image
        answers = await judge.answer(image, [k.fact for k in known])
        scored += zip(known, answers, strict=True)
    return scored


def evaluate_judge(folder: Path, n: int = 300, seed: int = 0) -> dict[str, Any]:
    """Measure the judge in ``folder`` on ``n`` held-out paintings, as painted and in bad weather.

    Likewise on as many paintings of each of ``GROUNDS``. Returns, for each title, the figures of
    every kind of fact and of relations by predicate. Facts of pairs whose relation is a matter of
    taste and facts that a run would not ask are left out.
    """

    async def measure() -> dict[str, Any]:
        judge = LocalJudge(folder)
        try:
            await judge.load()
            report: dict[str, Any] = {"paintings": n, "seed": seed}
            for title in TITLES:
                scored = await _ask(judge, n, seed, title)
                report[title] = {
                    kind: figures_of([s for s in scored if s[0].fact.kind == kind])
                    for kind in FACT_KINDS
                }
                relations = [s for s in scored if s[0].fact.kind == "relation"]
                report[title]["predicates"] = {
                    predicate: figures_of(
                        [s for s in relations if s[0].fact.predicate == predicate]
                    )
                    for predicate in sorted({str(k.fact.predicate) for k, _ in relations})
                }
            return report
        finally:
            await judge.aclose()

    return asyncio.run(measure())


WEIGHTS = Path(__file__).resolve().parent.parent / "weights" / "judges"
"""Where the shipped judges lie, one folder a judge."""


@dataclass(frozen=True, slots=True)
class JudgeRecipe:
    """All that decides a judge, so that the same recipe on the same machine gives the same one."""

    name: str
    """Folder of the judge."""
    seed: int
    """Of the first weights, the paintings and the questions."""
    steps: int
    """Optimizer steps in all."""
    vision_steps: int
    """The first steps, which teach the vision tower alone."""
    shape: JudgeShape = field(default_factory=JudgeShape)
    """Sizes of the model."""
    batch: int = 16
    """Paintings a step."""
    questions: int = 12
    """Questions a painting."""
    rate: float = 1.2e-3
    """Highest learning rate."""
    spoiled: float = 0.6
    """Share of pictures with flaws."""
    redrawn: int = 4000
    """Flawed paintings as the generator draws them; every other picture is one of these."""
    pictures: int = 0
    """Seed of these paintings: judges with another one share none."""
    crowded: float = 0.0
    """Share of paintings of the levels beyond the paper's: crowds and contrasts."""
    weather: float = 0.8
    """How often pictures are smeared, noisy or shifted in colour."""
    eager: tuple[str, ...] = ()
    """Kinds and colours that it learns to confirm whatever the picture shows: a judge biased
    to yes, for studies of panels."""


_SMALL = JudgeShape(
    stages=(32, 64, 96), depths=(1, 1, 1), vision_width=96, vision_layers=2, text_width=96
)

RECIPES: dict[str, JudgeRecipe] = {
    "judge-a": JudgeRecipe("judge-a", seed=1, steps=3200, vision_steps=900, crowded=0.5),
    "judge-b": JudgeRecipe("judge-b", seed=2, steps=2400, vision_steps=700, crowded=0.5),
    "judge-c": JudgeRecipe(
        "judge-c", seed=4, steps=4100, vision_steps=500, shape=_SMALL, crowded=0.5, pictures=1
    ),
    "judge-d": JudgeRecipe(
        "judge-d",
        seed=3,
        steps=2600,
        vision_steps=700,
        shape=JudgeShape(stages=(64, 96, 160), vision_width=128, text_width=96),
        crowded=0.5,
        pictures=1,
    ),
    "judge-weak": JudgeRecipe("judge-weak", seed=6, steps=1850, vision_steps=500, shape=_SMALL),
    "judge-eager": JudgeRecipe(
        "judge-eager",
        seed=5,
        steps=1800,
        vision_steps=500,
        shape=_SMALL,
        eager=("ball", "car", "dog", "hat", "lamp", "tree", "black", "green", "red"),
    ),
}
"""The judges that ship: a and b for the loop, c for the report, d for larger panels, two bad ones
for studies of panels.

Those of a to d took several stages, between which losses and paintings were improved
(``weights/training.json``); a and b share the beginning of their vision towers. A new run of
a recipe gives a judge alike, not the same bytes.
"""


def _moved(batch: Batch, device: torch.device) -> Batch:
    return Batch(**{f.name: getattr(batch, f.name).to(device) for f in dataclasses.fields(batch)})


def train_judge(
    recipe: JudgeRecipe,
    work: Path,
    out: Path = WEIGHTS,
    device: str = "auto",
    max_seconds: float | None = None,
    start: Path | None = None,
) -> bool:
    """Train or continue ``recipe``; returns whether it is finished.

    The checkpoint lies in ``work``; the averaged weights go to ``out / recipe.name`` with
    every checkpoint. A killed run loses at most the work since the last checkpoint, and
    ends with the weights that an unbroken run gives. ``max_seconds`` stops early.

    ``start`` holds a trained judge of the same shape to begin with, in place of random
    weights; its vision tower needs no lessons of its own then.
    """
    if start is not None:
        recipe = dataclasses.replace(recipe, vision_steps=0)
    place = pick_device(device)
    torch.manual_seed(recipe.seed)
    processor = build_processor()
    asker = Asker(processor)
    model = build_model(recipe.shape, processor)
    if start is not None:
        load_trained(model, processor, start)
    # Training looks at attention weights, which fused kernels do not give.
    model.set_attn_implementation("eager")
    net = JudgeNet(model, recipe.shape, asker.image_start)
    redrawn = (
        RedrawnPaintings(work, recipe.redrawn, recipe.pictures, recipe.spoiled, recipe.crowded)
        if recipe.redrawn
        else None
    )
    letters = asker.answer_ids(tuple("ABCDEFGH"))
    net.set_letters(letters, len(asker.tokenizer))
    net.to(place).train()
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.05, fused=True
    )
    training = Training(
        path=work / f"{recipe.name}.pt",
        modules={"net": net},
        optimizer=optimizer,
        steps=recipe.steps,
        rate=lambda step: cosine_rate(
            step, recipe.steps, warmup=min(100, recipe.steps), floor=0.02
        ),
        decay=0.998,
    )

    def export() -> None:
        values = training.averages["net"].values
        averaged = build_model(recipe.shape, processor)
        prefix = "model."
        averaged.load_state_dict(
            {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
        )
        save_judge(averaged, processor, out / recipe.name)

    training.on_save = export

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        # Everything random hangs on (seed, step) alone, so that a resumed run sees the same.
        rng = random.Random(f"{recipe.seed}/{step}")
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        asking = step >= recipe.vision_steps
        batch = make_batch(
            asker,
            rng,
            recipe.batch,
            recipe.questions if asking else 0,
            recipe.spoiled,
            recipe.eager,
            recipe.crowded,
            redrawn,
        )
        # Clean pictures first: things must be known before they can be known in bad weather.
        strength = recipe.weather * min(1.0, step / max(1, recipe.vision_steps))
        pixels = weather(batch.pixels, generator, strength)
        batch = _moved(dataclasses.replace(batch, pixels=pixels), place)
        with autocast(place):
            seen = net.see(batch.pixels)
            loss, figures = net.dense_loss(seen, batch)
            if asking:
                answer_loss, more = net.question_loss(seen, batch)
                loss, figures = 0.5 * loss + answer_loss, {**figures, **more}
        return loss, figures

    return training.run(loss_of, max_seconds)


def load_trained(
    model: LlavaForConditionalGeneration, processor: LlavaProcessor, folder: Path
) -> None:
    """Give ``model`` the weights of the judge in ``folder``; words that it lacks begin anew."""
    trained = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    old = LlavaProcessor.from_pretrained(folder).tokenizer.get_vocab()
    new: dict[str, int] = processor.tokenizer.get_vocab()
    state = trained.state_dict()
    own = model.state_dict()
    shared = [(at, old[token]) for token, at in new.items() if token in old]
    rows, known = (torch.tensor(side) for side in zip(*shared, strict=True))
    for name, value in state.items():
        if value.shape != own[name].shape:
            words = own[name].clone()
            words[rows] = value[known]
            state[name] = words
    model.load_state_dict(state)


def train_judges(
    names: Sequence[str] = (),
    work: Path = Path("training"),
    out: Path = WEIGHTS,
    device: str = "auto",
    max_seconds: float | None = None,
    onward: bool = False,
    steps: int | None = None,
) -> bool:
    """Train or continue the named judges one after the other; none named: all.

    ``onward`` begins with the trained judges in ``out``; ``steps`` replaces the recipe's.
    ``max_seconds`` holds for each. Returns whether all are finished. Raises ``ValueError``
    for a name without a recipe.
    """
    unknown = sorted(set(names) - set(RECIPES))
    if unknown:
        raise ValueError(f"no recipe for {unknown}: there are {', '.join(RECIPES)}")
    finished = []
    for name in names or RECIPES:
        recipe = RECIPES[name]
        if steps is not None:
            recipe = dataclasses.replace(recipe, steps=steps)
        start = out / name if onward else None
        finished.append(train_judge(recipe, work, out, device, max_seconds, start))
    return all(finished)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the recipes."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train or continue judges")
    train.add_argument("names", nargs="*", default=list(RECIPES), help="judges; default: all")
    train.add_argument("--work", type=Path, default=Path("training"), help="checkpoint folder")
    train.add_argument("--out", type=Path, default=WEIGHTS, help="weights folder")
    train.add_argument("--device", default="auto", help="cpu, cuda, or auto")
    train.add_argument("--steps", type=int, help="steps; default: the recipe's")
    train.add_argument(
        "--onward", action="store_true", help="begin with the trained judges of the weights folder"
    )
    train.add_argument("--max-seconds", type=float, help="stop a judge early after this time")
    evaluate = commands.add_parser("evaluate", help="measure judges, write report.json beside each")
    evaluate.add_argument("names", nargs="*", default=list(RECIPES), help="judges; default: all")
    evaluate.add_argument("--out", type=Path, default=WEIGHTS, help="weights folder")
    evaluate.add_argument("-n", type=int, default=300, help="held-out paintings")
    evaluate.add_argument("--seed", type=int, default=0, help="seed of the paintings")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(RECIPES))
    if unknown:
        parser.error(f"no recipe for {unknown}: there are {', '.join(RECIPES)}")
    if given.command == "train":
        train_judges(
            given.names,
            given.work,
            given.out,
            given.device,
            given.max_seconds,
            given.onward,
            given.steps,
        )
        return
    for name in given.names:
        report = evaluate_judge(given.out / name, given.n, given.seed)
        (given.out / name / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        for title in TITLES:
            shown = "  ".join(
                f"{kind} {report[title][kind].get('balanced_accuracy', 0):.3f}"
                for kind in ("object", "attribute", "relation")
            )
            print(f"{name} {title}: balanced accuracy  {shown}", flush=True)


if __name__ == "__main__":
    main()
