"""Pictures of the miniature generator: by level, by guidance, with references, and on a page.

Pictures and answers are kept in a folder. A benchmark that is cut off goes on from there with the
same command. Pictures are named by request and backend, answers by judge, picture and question, so
that changed weights are never answered from an old folder.

For what a reference adds, every case is drawn with the same prompt and seed in several arms, so the
arms are compared case by case:

- ``prompt``: the full prompt alone;
- ``shown``: with a painted reference that shows the thing where the prompt puts it;
- ``unrelated``: with a reference that shows, in the same place, a kind that nobody asked for;
- ``zero``: ``shown`` with λ = 0, which must be the very picture of ``prompt``.

A thing counts as absent or miscoloured without a reference if both panels say so. It may then
come right by any change of the picture, and a judge's slip may not be repeated; so ``unrelated``,
not ``prompt``, is the arm that such things are to be compared with.
"""

from __future__ import annotations

import io
import itertools
import random
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks._harness import interval, intervals, prefixed, progress
from benchmarks._scenes import ALL_LEVELS, LEVELS, AnyLevel, held_out, painting_of_level
from scenewright.agents.composers.rules import setting_of
from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.config.options import LoopOptions
from scenewright.config.profiles import Profile
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.images import ImageStore
from scenewright.core.layout import Cell, place_what_fits
from scenewright.core.ports.backend import GenerationRequest, PromptCount, Reference
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.graphs.drawing import stored_metadata, stored_prompt_count
from scenewright.miniature.painter import Painting, render
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import COLORS, KINDS, SETTINGS
from scenewright.providers import AnswerStore, ask
from scenewright.runs.model_factory.profiles import RunModels

ROLES = ("report", "loop")
"""The two panels of a profile."""


class KeptTeam:
    """The models of a profile, each answer and picture kept in ``folder``."""

    def __init__(self, profile: Profile, run_models: RunModels, folder: Path) -> None:
        self.profile = profile
        self.run_models = run_models
        self.images = ImageStore(folder / "images")
        self._answers = AnswerStore(folder / "answers.sqlite")
        self._panel = Panel(aggregation=profile.aggregation, quorum=profile.quorum)

    def role_of(self, judge: Judge) -> str:
        """Return ``loop`` or ``report``; ``studies`` for a judge that is in no panel."""
        return next((role for role in ROLES if judge in self.panel(role)), "studies")

    def panel(self, role: str) -> tuple[Judge, ...]:
        """Return the judges of ``role``, one of :data:`ROLES`."""
        return self.run_models.loop_judges if role == "loop" else self.run_models.report_judges

    async def draw(self, request: GenerationRequest) -> str:
        """Return the content hash of the picture that ``request`` gives."""
        key = request.key(self.run_models.backend.fingerprint)
        found = self.images.recall(key)
        if found is not None:
            return found[0]
        drawn = await self.run_models.backend.generate(request, self.images.get)
        image = self.images.put(drawn.image)
        self.images.remember(key, image, stored_metadata(drawn) | {"seconds": drawn.seconds})
        return image

    def count(self, request: GenerationRequest) -> PromptCount | None:
        """Return how the prompt of a picture was read, None if that is not known.

        ``LookupError`` if it was not drawn.
        """
        found = self.images.recall(request.key(self.run_models.backend.fingerprint))
        if found is None:
            raise LookupError("this request was not drawn: draw it first")
        return stored_prompt_count(found[1])

    async def answers(
        self, judge: Judge, image: Image.Image | str, facts: Sequence[Fact]
    ) -> tuple[Answer, ...]:
        """Return what ``judge`` says of a picture (itself, or its hash), one answer a fact."""
        name = image if isinstance(image, str) else self.images.put(image)
        picture = self.images.get(name)
        return (await ask(judge, name, picture, facts, store=self._answers)).answers

    async def card(self, image: str, facts: Sequence[Fact], role: str) -> ScoreCard:
        """Return the score card of a picture by the judges of ``role``.

        Asked in waves as in a run.
        """
        known: dict[str, Verdict] = {}
        while wave := next_wave(facts, known):
            given = {j.id: await self.answers(j, image, wave) for j in self.panel(role)}
            known |= {v.fact_id: v for v in self._panel.verdicts(wave, given, known)}
            known |= {v.fact_id: v for v in void_verdicts(facts, known)}
        return ScoreCard.of(facts, known.values(), self.profile.alpha)

    def close(self) -> None:
        """Close the store of answers."""
        self._answers.close()


def short(judge: Judge) -> str:
    """Return a judge's name in figures: ``judge-a`` of ``local:miniature/judge-a``."""
    return judge.id.rpartition("/")[2]


SCORES = ("objects", "attributes", "relations", "sgscore", "facts")
"""ObjectRecall, AttributeRecall, RelationRecall, SGScore, share of all facts."""


@dataclass(frozen=True, slots=True)
class Task:
    """A held-out scene and the seed it is drawn with."""

    level: AnyLevel
    """Level of the scene."""
    scene: SceneGraph
    """What is asked."""
    seed: int
    """Of the composition and of the noise."""


def tasks_of(count: int, levels: Sequence[AnyLevel] = LEVELS) -> list[Task]:
    """Return ``count`` held-out scenes of each of ``levels``."""
    return [
        Task(level, painting_of_level(level, "drawing", at).scene, at)
        for at in range(count)
        for level in levels
    ]


def scores_of(card: ScoreCard) -> dict[str, float | None]:
    """Return the scores of a card by the names of :data:`SCORES`; None: nothing was scored."""
    values = (
        card.objects.value,
        card.attributes.value,
        card.relations.value,
        card.sgscore,
        card.fact_recall,
    )
    return dict(zip(SCORES, values, strict=True))


def request_at(prompt: str, seed: int, guidance: float | None) -> GenerationRequest:
    """Return the drawing of ``prompt`` at a guidance scale; None: the backend's own.

    With scale 0 classifier-free guidance leaves what the model predicts without text, which
    is the drawing of a prompt without words.
    """
    if guidance == 0:
        return GenerationRequest(prompt=" ", seed=seed, guidance=1.0)
    return GenerationRequest(prompt=prompt, seed=seed, guidance=guidance)


async def _draw(kept: KeptTeam, task: Task, guidance: float | None) -> tuple[str, int]:
    """Return the picture's hash, and how many tokens of the prompt were cut off."""
    prompt = await kept.run_models.composer.compose(task.scene, task.seed)
    request = request_at(prompt, task.seed, guidance)
    image = await kept.draw(request)
    count = kept.count(request)
    return image, 0 if count is None else count.dropped


async def level_figures(kept: KeptTeam, count: int) -> dict[str, Any]:
    """Return ``levels.<level>.<role>.<score>``.

    ``.prompts_cut`` (share) and ``.n`` for ``count`` scenes a level, drawn as the profile draws.
    """
    cards: dict[tuple[AnyLevel, str], list[dict[str, float | None]]] = defaultdict(list)
    cut: dict[AnyLevel, list[bool]] = defaultdict(list)
    for task in progress(tasks_of(count, ALL_LEVELS), note="levels"):
        image, dropped = await _draw(kept, task, None)
        cut[task.level].append(dropped > 0)
        facts = kept.profile.form().facts(task.scene)
        for role in ROLES:
            cards[task.level, role].append(scores_of(await kept.card(image, facts, role)))
    figures: dict[str, Any] = {}
    for level in ALL_LEVELS:
        figures[f"levels.{level}.n"] = len(cut[level])
        figures[f"levels.{level}.prompts_cut"] = sum(cut[level]) / len(cut[level])
        for role in ROLES:
            figures |= intervals(cards[level, role], f"levels.{level}.{role}.")
    return figures


def guidance_summary(
    facts: Mapping[int, Sequence[float]], suffix: str = ""
) -> dict[str, dict[str, float]]:
    """Return ``facts<suffix>.<g>`` and ``gain<suffix>.<g>`` over the scale before, by scene.

    ``facts`` maps a guidance scale to the shares of facts of the same scenes in the same order.
    """
    scales = sorted(facts)
    found = {f"facts{suffix}.{g}": interval(facts[g]) for g in scales}
    for before, g in itertools.pairwise(scales):
        gains = [now - then for now, then in zip(facts[g], facts[before], strict=True)]
        found[f"gain{suffix}.{g}"] = interval(gains)
    return found


async def guidance_figures(kept: KeptTeam, count: int, scales: Sequence[int]) -> dict[str, Any]:
    """Return ``guidance.facts.<g>`` and ``guidance.gain.<g>``, with ``_loop`` by the loop's judges.

    The others are by the report judges; ``count`` scenes a level, the same seeds at every scale.
    """
    shares: dict[str, dict[int, list[float]]] = {role: {g: [] for g in scales} for role in ROLES}
    tasks = tasks_of(count)
    own = kept.run_models.backend.features.default_guidance
    for task, g in progress(list(itertools.product(tasks, scales)), note="guidance"):
        # At the backend's own scale the picture is that of the levels.
        image, _ = await _draw(kept, task, None if g == own else float(g))
        facts = kept.profile.form().facts(task.scene)
        for role in ROLES:
            share = (await kept.card(image, facts, role)).fact_recall
            if share is None:
                raise RuntimeError(f"the {role} judges scored no fact of {task.scene.digest[:12]}")
            shares[role][g].append(share)
    figures = guidance_summary(shares["report"]) | guidance_summary(shares["loop"], "_loop")
    return prefixed("guidance.", {"n": len(tasks), "default": own, **figures})


WEIGHT = LoopOptions().weight_missing
"""λ of the reference: the default of profiles."""
ARMS = ("prompt", "shown", "unrelated")
_SETTING_OF_WORDS = {words: name for name, words in SETTINGS.items()}


@dataclass(frozen=True, slots=True)
class Subject:
    """A scene that is drawn in several arms."""

    at: int
    """Number of the case: its seed."""
    scene: SceneGraph
    """What is asked: 8 or 9 objects with their colours."""
    cells: dict[str, Cell]
    """Where the prompt puts them."""
    alone: tuple[str, ...]
    """Ids of the objects that are the only one of their kind."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report judges say of one arm of one case."""

    appears: bool | None
    """Whether what the reference shows is there (of a miscoloured thing: in its colour); None:
    not scored."""
    facts: float | None
    """Share of all the scene's facts that hold."""


def subject(at: int) -> Subject:
    """Return held-out case ``at``; all of its relations fit on the grid."""
    rng = held_out("adapter", at)
    while True:
        scene = sample_painting(rng, rng.randint(8, 9)).scene
        counts = Counter(item.name for item in scene.objects)
        alone = tuple(item.id for item in scene.objects if counts[item.name] == 1)
        cells = place_what_fits(scene, at)
        if alone and cells:
            return Subject(at, scene, cells, alone)


def reference_of(case: Subject, target: str, unrelated: bool) -> Painting:
    """Return a painting of ``target`` alone in its place.

    ``unrelated``: of a kind that is not in the scene.
    """
    rng = random.Random(f"reference/{case.at}/{target}")
    item = case.scene.object(target)
    if unrelated:
        asked = {other.name for other in case.scene.objects}
        item = SceneObject(
            id=target,
            name=rng.choice(sorted(set(KINDS) - asked)),
            attributes=Attributes({"color": rng.choice(sorted(COLORS))}),
        )
    setting = _SETTING_OF_WORDS[setting_of(case.scene)]
    scene = SceneGraph(objects=(item,))
    return render(scene, {target: case.cells[target]}, frozenset(), setting, rng)


async def _request(
    kept: KeptTeam, case: Subject, target: str, arm: str, unnamed: bool = False
) -> GenerationRequest:
    said = case.scene
    if unnamed:
        said = said.subgraph(item.id for item in said.objects if item.id != target)
    prompt = await kept.run_models.composer.compose(said, case.at, within=case.scene)
    references: tuple[Reference, ...] = ()
    if arm != "prompt":
        image = kept.images.put(reference_of(case, target, arm == "unrelated").image)
        references = (Reference(image=image, weight=0.0 if arm == "zero" else WEIGHT),)
    return GenerationRequest(prompt=prompt, seed=case.at, references=references)


async def _outcomes(
    kept: KeptTeam,
    case: Subject,
    goal: Fact,
    arms: Sequence[str] = ARMS,
    unnamed: bool = False,
) -> dict[str, Outcome]:
    """Return every arm of a case whose reference shows the subject of ``goal``."""
    found: dict[str, Outcome] = {}
    for arm in arms:
        image = await kept.draw(await _request(kept, case, goal.subject, arm, unnamed))
        card = await kept.card(image, kept.profile.form().facts(case.scene), "report")
        state = next(v.state for v in card.verdicts if v.fact_id == goal.id)
        found[arm] = Outcome(None if state == "unscored" else state == "yes", card.fact_recall)
    return found


async def _denied(kept: KeptTeam, case: Subject) -> list[Fact]:
    """Return the facts that both panels deny of the picture of the prompt alone."""
    image = await kept.draw(await _request(kept, case, case.alone[0], "prompt"))
    denied = list(kept.profile.form().facts(case.scene))
    for role in ROLES:
        card = await kept.card(image, kept.profile.form().facts(case.scene), role)
        states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
        denied = [fact for fact in denied if states[fact.id] == "no"]
    return denied


def summary(rows: Sequence[dict[str, Outcome]]) -> dict[str, Any]:
    """Return ``<arm>.appears``, ``<arm>.facts`` and the paired gains of ``shown`` over other arms.

    A case with an unscored arm is left out and counted in ``unscored``.
    """
    whole = [
        row for row in rows if not any(o.appears is None or o.facts is None for o in row.values())
    ]
    found = [
        {
            f"{name}.{measure}": value
            for measure in ("appears", "facts")
            for name, value in _gains({arm: float(getattr(o, measure)) for arm, o in row.items()})
        }
        for row in whole
    ]
    return {"n": len(whole), "unscored": len(rows) - len(whole), **intervals(found)}


def _gains(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for arm, value in values.items():
        yield arm, value
        if arm != "shown":
            yield f"gain_over_{arm}", values["shown"] - value


@dataclass(frozen=True, slots=True)
class AdapterPlan:
    """How many cases there are of what."""

    cases: int
    """*all*: any single thing of a scene, drawn by lot."""
    search: int
    """Scenes that are drawn to find things that the prompt alone gets wrong."""
    wanted: int
    """*absent* (not there) and *miscoloured* (there, in another colour), each at most."""
    unnamed: int
    """*unnamed*: the prompt leaves the thing out."""
    zero: int
    """Pairs of pictures for λ = 0."""


async def adapter_figures(kept: KeptTeam, plan: AdapterPlan) -> dict[str, Any]:
    """Return ``adapter.<set>.*`` for the sets of :class:`AdapterPlan` (see :func:`summary`).

    ``adapter.zero.same`` is the share of pictures that λ = 0 left as they were.
    """
    rows: dict[str, list[dict[str, Outcome]]] = {
        title: [] for title in ("all", "absent", "miscoloured", "unnamed")
    }
    same: list[bool] = []
    count = max(plan.cases, plan.search)
    for at in progress(range(count), note="adapter"):
        case = subject(at)
        facts = kept.profile.form().facts(case.scene)
        target = held_out("adapter target", at).choice(case.alone)
        there = next(fact for fact in facts if fact.kind == "object" and fact.subject == target)
        if at < plan.cases:
            rows["all"].append(await _outcomes(kept, case, there))
        if at < plan.unnamed:
            arms = ("prompt", "shown")
            rows["unnamed"].append(await _outcomes(kept, case, there, arms, unnamed=True))
        if at < plan.zero:
            requests = [await _request(kept, case, target, arm) for arm in ("prompt", "zero")]
            plain, off = [await kept.draw(request) for request in requests]
            same.append(plain == off)
        full = min(len(rows["absent"]), len(rows["miscoloured"])) >= plan.wanted
        if at >= plan.search or full:
            continue
        denied = await _denied(kept, case)
        for title, kind in (("absent", "object"), ("miscoloured", "attribute")):
            goals = [fact for fact in denied if fact.kind == kind]
            if goals and len(rows[title]) < plan.wanted:
                goal = held_out(f"adapter {title}", at).choice(goals)
                rows[title].append(await _outcomes(kept, case, goal))
    figures: dict[str, Any] = {"weight": WEIGHT}
    for title, outcomes in rows.items():
        figures |= prefixed(f"{title}.", summary(outcomes))
    figures["zero.n"] = len(same)
    figures["zero.same"] = sum(same) / len(same) if same else 0.0
    return prefixed("adapter.", figures)


_INK = (30, 30, 34)
_PAPER = (255, 255, 255)

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def font(size: int) -> Font:
    """Return the typeface that comes with Pillow: the same on every machine."""
    return ImageFont.load_default(size)


def line_height(size: int) -> int:
    """Pixels from one line of text to the next."""
    return round(size * 1.25)


def paper(width: int, height: int) -> Image.Image:
    """Return an empty sheet."""
    return Image.new("RGB", (width, height), _PAPER)


def write(
    sheet: Image.Image,
    place: tuple[int, int],
    lines: Sequence[str],
    size: int,
    columns: int | None = None,
) -> None:
    """Write ``lines`` down from ``place`` (left, top), wrapped at ``columns`` characters."""
    draw = ImageDraw.Draw(sheet)
    wrapped = [
        part
        for line in lines
        for part in (textwrap.wrap(line, columns, subsequent_indent="   ") if columns else [line])
    ]
    left, top = place
    for at, line in enumerate(wrapped):
        draw.text((left, top + at * line_height(size)), line, _INK, font(size))


def paste(sheet: Image.Image, place: tuple[int, int], image: Image.Image, side: int) -> None:
    """Paste ``image``, scaled to ``side`` pixels a side, at ``place`` (left, top)."""
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    sheet.paste(image, place)


def rounded(image: Image.Image, bits: int) -> Image.Image:
    """Return RGB of ``image`` with ``bits`` (1–8) of every channel, at most 2^(7 − bits) off.

    It compresses as well as a palette does, but a palette loses the rare colours, and a
    picture's few small things are just those.
    """
    if not 1 <= bits <= 8:
        raise ValueError(f"bits is {bits}: use 1 to 8")
    pixels = np.asarray(image.convert("RGB"))
    lost = 8 - bits
    middle = (1 << lost) >> 1
    return Image.fromarray(((pixels >> lost) << lost) + np.uint8(middle))


def small_png(image: Image.Image, limit: int) -> bytes:
    """PNG of ``image`` below ``limit`` bytes, in 8 to 4 bits a channel, as many as fit.

    Raises ``ValueError`` if even 4 bits take more.
    """
    for bits in (8, 7, 6, 5, 4):
        buffer = io.BytesIO()
        rounded(image, bits).save(buffer, "PNG", optimize=True)
        if buffer.tell() < limit:
            return buffer.getvalue()
    raise ValueError(f"{image.width}×{image.height} pixels do not fit into {limit} bytes: ask less")


SCENES = (
    "red ball",
    "yellow dog left of blue house",
    "black cat on purple table; green ball right of purple table",
    "red person holding yellow umbrella; blue car right of red person; "
    "green tree above blue car; blue car below green tree",
    "red house left of green tree; green tree left of blue boat; yellow dog below red house; "
    "purple cat below green tree; yellow dog left of purple cat; red ball right of purple cat; "
    "red ball below blue boat; red house above yellow dog",
)
"""Triplets of the rows, from one thing to eight relations."""
SCALES = (0, 1, 2, 3, 5)
"""Guidance of the columns, 0 without text; the seed is the same in a row."""
SEED = 7
LIMIT_BYTES = 400_000
_SIDE = 192
_SMALL = 84
_GAP = 4
_WORDS = 232
_LABEL = 64
_TOP = 22


async def _drawn(
    kept: KeptTeam, scene: SceneGraph, seed: int, guidance: float | None
) -> Image.Image:
    prompt = await kept.run_models.composer.compose(scene, seed)
    return kept.images.get(await kept.draw(request_at(prompt, seed, guidance)))


async def _scenes_block(kept: KeptTeam, scenes: Sequence[str]) -> Image.Image:
    step = _SIDE + _GAP
    block = paper(_WORDS + len(SCALES) * step, _TOP + len(scenes) * step)
    write(block, (0, 2), ["what is asked, and guidance:"], 13)
    for column, scale in enumerate(SCALES):
        write(block, (_WORDS + column * step + _SIDE // 2, 2), [str(scale)], 13)
    for row, text in enumerate(progress(scenes, note="grid, scenes")):
        scene = load_scene(text, format="triplets")
        words = [f"{scene.level()}:", *(part.strip() for part in text.split(";"))]
        write(block, (0, _TOP + row * step), words, 12, 38)
        for column, scale in enumerate(SCALES):
            image = await _drawn(kept, scene, SEED, float(scale))
            paste(block, (_WORDS + column * step, _TOP + row * step), image, _SIDE)
    return block


async def _kinds_block(kept: KeptTeam, kinds: Sequence[str], colors: Sequence[str]) -> Image.Image:
    step = _SMALL + _GAP
    block = paper(_LABEL + len(kinds) * step, _TOP + len(colors) * step)
    for column, kind in enumerate(kinds):
        write(block, (_LABEL + column * step, 2), [kind], 13)
    for row, color in enumerate(progress(colors, note="grid, colours")):
        write(block, (0, _TOP + row * step + 28), [color], 13)
        for column, kind in enumerate(kinds):
            item = SceneObject(id=kind, name=kind, attributes=Attributes({"color": color}))
            image = await _drawn(kept, SceneGraph(objects=(item,)), SEED, None)
            paste(block, (_LABEL + column * step, _TOP + row * step), image, _SMALL)
    return block


async def grid(
    kept: KeptTeam,
    scenes: Sequence[str] = SCENES,
    kinds: Sequence[str] = tuple(KINDS),
    colors: Sequence[str] = tuple(COLORS),
) -> Image.Image:
    """Return the page, RGB: scenes by guidance above, single things by colour below."""
    blocks = [await _scenes_block(kept, scenes), await _kinds_block(kept, kinds, colors)]
    margin = 12
    page = paper(
        max(block.width for block in blocks) + 2 * margin,
        sum(block.height + margin for block in blocks) + margin,
    )
    top = margin
    for block in blocks:
        page.paste(block, (margin, top))
        top += block.height + margin
    return page
