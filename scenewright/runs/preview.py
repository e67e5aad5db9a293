"""The prompts and questions of a run, before any model is loaded or downloaded.

The prompt where no language model writes it, else what the language model would be sent; its
tokens against what the image model reads; questions with their options; judges, and what lies
outside of the words that they know. Neither weights nor keys are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from scenewright.agents.composers.check import dropped_facts
from scenewright.agents.composers.comparison import changes_of, without_excluded
from scenewright.agents.panel.cascade import guarantee_in
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import load_calibration
from scenewright.agents.parsers.unread import CaptionError
from scenewright.config.profiles import CHAT_COMPOSERS, LOCAL_BACKEND, Profile
from scenewright.config.settings import reports_itself
from scenewright.core.facts import FACT_KINDS, Fact
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import BackendError, BackendFeatures
from scenewright.core.ports.composer import Wording, compose_with_origin
from scenewright.core.scene import SceneGraph
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.tournament import FIRST, Tournament
from scenewright.runs.model_factory.local_models import backend_folder
from scenewright.runs.model_factory.profiles import backend_of, composer_of

if TYPE_CHECKING:
    from scenewright.runs.plan import RunPlan
    from scenewright.tools.backends.families import Family
    from scenewright.tools.backends.prompts import PromptReader


class Message(BaseModel):
    """A message to the language model that composes."""

    model_config = ConfigDict(frozen=True)

    role: str
    """``system`` or ``human``."""
    text: str


class RunPreview(BaseModel):
    """A run before it begins."""

    model_config = ConfigDict(frozen=True)

    scene: SceneGraph
    """The scene as it was read."""
    reader: str
    """Reader of the sentence, and the language model still to read it; empty for none."""
    profile: str
    """Its name."""
    backend: str
    """``kind:model`` of what draws."""
    composer: str
    """Composer of the prompt."""
    chat: str | None
    """The language model that composes; none if none does."""
    prompt: str | None
    """The very prompt of the first picture; none where a language model writes it."""
    negative_prompt: str
    """Negative prompt of the image model; empty where it takes none."""
    lost: tuple[Passage, ...]
    """Passages of the sentence that the prompt does not say."""
    added: tuple[str, ...]
    """Words of the prompt that the sentence does not say."""
    messages: tuple[Message, ...]
    """Messages to the language model, of ``stages`` in its last step; none without one."""
    tokens: int | None
    """Tokens of the prompt, without marks; none where a language model writes it."""
    estimated: bool
    """Whether they are estimated from characters: the model's tokenizer is not on this machine."""
    budget: int | None
    """Most tokens that are read; none: any number, or nobody knows."""
    chunked: bool
    """Whether longer prompts are read in pieces."""
    dropped: int
    """Tokens that are not read."""
    facts_dropped: tuple[str, ...]
    """Ids of facts whose words are not read, or for which the prompt has no room."""
    work: tuple[float, float] | None
    """Full-picture steps of the denoiser: of the first picture, and at most of all rounds, as if
    every one drew a whole picture and a reference, of a tournament all proposals of one place that
    is the whole picture; none where the model is not on this machine or does not tell."""
    repair: str
    """Repair of the rounds, and limits of work and judge calls."""
    facts: tuple[Fact, ...]
    """The facts, with questions and options."""
    protocol: str
    """Protocol of the questions."""
    judges: tuple[str, ...]
    """Judges of the loop."""
    cascade: str
    """Which of them are asked first, and when the others too; empty without a cascade."""
    report_judges: tuple[str, ...]
    """Judges of the report."""
    self_report: bool
    """Whether the judges of the loop report its result."""
    outside: str
    """Facts outside of the words that the models know; empty if there are none."""
    options: dict[str, Any]
    """Numbers and choices of the loop."""


async def preview_of(plan: RunPlan) -> RunPreview:
    """Return what the run of ``plan`` would send and ask; loads, draws and pays for nothing.

    A sentence that a language model is to read is read by the rules. Raises ``CaptionError`` where
    these cannot.
    """
    profile, scene = plan.profile, plan.scene
    from scenewright.tools.backends.prompts import PromptReader, find_prompt_reader

    if plan.unread is not None and plan.unread.problem:
        raise CaptionError(plan.unread.problem)
    facts = plan.options.form.facts(scene)
    abilities = _abilities(plan)
    features = abilities if isinstance(abilities, BackendFeatures) else None
    if profile.backend.kind == LOCAL_BACKEND:
        folder = backend_folder(profile.backend.model)
        reader = find_prompt_reader(str(folder) if folder.is_dir() else profile.backend.model)
    else:
        reader = PromptReader((), None if features is None else features.prompt_tokens)
    told, messages = await _prompt(plan, reader, abilities.languages if abilities else ("en",))
    avoids = abilities is not None and abilities.negative_prompt
    prompt = None if told is None else without_excluded(told.prompt, scene, avoids)
    changes = changes_of(scene, prompt or "", plan.options.negative_prompt)
    count = None if prompt is None else reader.count(prompt)
    coverage = plan.coverage(scene)
    own = reports_itself(profile)
    writes = profile.composer in CHAT_COMPOSERS
    return RunPreview(
        scene=scene,
        reader=_sentence_reader(plan),
        profile=profile.name,
        backend=f"{profile.backend.kind}:{profile.backend.model}",
        composer=profile.composer,
        chat=profile.chat if writes else None,
        prompt=prompt,
        negative_prompt=plan.options.negative_prompt if avoids else "",
        lost=() if prompt is None else changes.lost,
        added=() if prompt is None else changes.added,
        messages=messages,
        tokens=None if count is None else count.tokens,
        estimated=count is not None and count.estimated,
        budget=reader.budget,
        chunked=reader.chunked,
        dropped=0 if count is None else count.dropped,
        facts_dropped=()
        if told is None or count is None
        else dropped_facts(scene, facts, told.prompt, count.read, told.unsaid),
        work=None if features is None else _work(plan, features),
        repair=_repair(plan),
        facts=facts,
        protocol=plan.options.protocol,
        judges=profile.judges,
        cascade=_cascade(profile),
        report_judges=profile.judges if own else profile.report_judges,
        self_report=own,
        outside="" if coverage.complete else coverage.text,
        options=plan.options.model_dump(mode="json"),
    )


def _sentence_reader(plan: RunPlan) -> str:
    if plan.unread is not None:
        return f"rules; the run asks {plan.profile.chat} to read it (--with llm does now)"
    reading = plan.reading
    if reading is None:
        return ""
    return reading.model if reading.reader == "llm" else f"rules: {reading.problem}"


def _abilities(plan: RunPlan) -> BackendFeatures | Family | None:
    """Return the abilities of the image model, as far as they are known without it and its key."""
    spec = plan.profile.backend
    try:
        if spec.kind != LOCAL_BACKEND:
            from scenewright.tools.backends.image_models import image_caps_of

            account = plan.settings.account(spec.kind)
            limits = spec.limits_over(account.models.get(spec.model))
            return image_caps_of(account.provider, spec.model, limits).features(spec.size)
        return backend_of(spec, plan.settings).features
    except BackendError:
        # Its weights are not on this machine: the row of its family says it.
        from scenewright.providers.hub.needs import known_repositories
        from scenewright.tools.backends.families import known_families

        entry = known_repositories().get(spec.model)
        return known_families().get(entry.pipeline or "") if entry is not None else None


def _work(plan: RunPlan, features: BackendFeatures) -> tuple[float, float] | None:
    if plan.profile.backend.kind != LOCAL_BACKEND:
        return None
    options, size = plan.options, features.default_size
    width, height = options.width or size[0], options.height or size[1]
    step = width * height / (size[0] * size[1])
    first = step * (options.steps or features.default_steps)
    most, round = options.budget.work, 2 * first
    if options.strategy == Tournament.name:
        round *= options.proposals
    whole = first + (options.rounds - 1) * round
    return first, whole if most is None else min(whole, most + 2 * first)


def _repair(plan: RunPlan) -> str:
    """Return the strategy with what a round of it draws, and the limits."""
    options, budget = plan.options, plan.options.budget
    text = options.strategy
    if text == Tournament.name:
        first = min(FIRST, options.proposals)
        calls = len(plan.profile.judges) if plan.profile.cascade is None else 1
        text += (
            f": {first} proposals for each place of what failed, up to {options.proposals} where "
            f"none wins, about {calls} judge calls each"
        )
    limits = [
        f"{most:g} {unit}"
        for most, unit in ((budget.work, "steps of work"), (budget.judge_calls, "judge calls"))
        if most is not None
    ]
    return f"{text}; at most {' and '.join(limits)}" if limits else text


def _cascade(profile: Profile) -> str:
    spec = profile.cascade
    if spec is None:
        return ""
    first = f"{', '.join(spec.first)} first"
    made = None
    if profile.calibration is not None:
        calibration = load_calibration(profile.calibration)
        panel = Panel(profile.aggregation, profile.quorum, calibration=calibration)
        made = guarantee_in(spec, panel)
    if made is None:
        return f"{first}, the others from {spec.unsure[0]:g} to {spec.unsure[1]:g}"
    bounds = []
    for kind in FACT_KINDS:
        low, high = made.bounds(kind)
        bounds.append(f"{kind}s {low:.3g} to {high:.3g}")
    others = len(profile.judges) - len(spec.first)
    return (
        f"{first}, the others where it is unsure ({', '.join(bounds)}); on the labelled facts it "
        f"settles {made.coverage:.0%}, so that an image takes about "
        f"{len(spec.first) + others * (1 - made.coverage):.2f} answers a fact of "
        f"{len(profile.judges)}; wrong in at most {made.risk:g} of what it settles"
    )


async def _prompt(
    plan: RunPlan, reader: PromptReader, languages: tuple[str, ...]
) -> tuple[Wording | None, tuple[Message, ...]]:
    profile, scene = plan.profile, plan.scene
    if profile.composer not in CHAT_COMPOSERS:
        composer = composer_of(profile, plan.settings, reader.room, languages=languages)
        return await compose_with_origin(
            composer, scene, round_seed(plan.options.seed, 0, "candidate")
        ), ()
    from scenewright.agents.chat.scripted import scripted_chat
    from scenewright.agents.composers.language import LanguageComposer, Table6Composer

    # Messages do not depend on the model, so that its key need not be there.
    chat = scripted_chat("refusal")
    table6 = profile.composer == "table6"
    stages = profile.composer == "stages"
    writer = Table6Composer(chat) if table6 else LanguageComposer(chat, stages, room=reader.room)
    sent = writer.messages(scene)
    return None, tuple(Message(role=one.type, text=str(one.text)) for one in sent)
