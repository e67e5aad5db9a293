"""Profiles: which backend, judges and composer go together.

Also limits of output tokens by the role of a language model, so that endless output ends soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from scenewright.config.accounts import ACCOUNT_NAME, BUILT_IN_ACCOUNTS, DECISION_KIND, AccountSpec
from scenewright.config.local_images import AdapterSpec, CacheSpec, LoraSpec, QuantizationSpec
from scenewright.config.model_identity import (
    ModelIdentity,
    identities_of,
    identity_of_spec,
    independence_problem,
)
from scenewright.config.options import ImageOptions, RepairOptions, SentenceReader
from scenewright.core.errors import ScenewrightError
from scenewright.core.inflection import read_data
from scenewright.core.questions import QuestionForm

Role = Literal["director", "composer", "parser", "questions", "grader", "judge"]
"""Role of a language model in a run or an evaluation."""
DEFAULTS: Mapping[Role, int] = {
    "director": 2048,  # a thought and some calls of tools
    "composer": 1024,  # a page of text; image models read far less
    "parser": 4096,  # the graph of a long text, as JSON
    "questions": 2048,
    "grader": 2048,
    "judge": 4096,  # a sheet of 32 facts with a reason for each takes a third of it
}
"""Most output tokens of one reply, unless settings or the model's table give less."""
OF_THE_MODEL = "max_output_tokens of the model in its account"
"""Setting of a limit without a role, for messages."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """The limit of a reply's output tokens."""

    tokens: int
    """Most tokens; 0: no limit is sent."""
    set_by: str = OF_THE_MODEL
    """Setting to raise, for messages."""


def output_limit(
    role: Role | None,
    of_model: int,
    *,
    declared: bool,
    thinks: bool,
    given: Mapping[Role, int] | None = None,
) -> OutputLimit:
    """Return the output limit of a model in ``role``; without a role it is the model's own.

    ``given`` are the limits by role of settings and profile, which have precedence. ``of_model`` is
    the limit in the model's table or, if ``declared``, in its account; 0: none. A role's default
    applies only where no limit is declared and the model does not think, because thoughts count as
    output.
    """
    if role is None:
        return OutputLimit(of_model)
    told = f"output_tokens.{role} in the profile or in scenewright.toml"
    if given and role in given:
        return OutputLimit(given[role], f"{told}, now {given[role]}")
    default = DEFAULTS[role]
    if declared or thinks or not 0 < default <= of_model:
        return OutputLimit(of_model)
    return OutputLimit(default, f"{told}, {default} by default")


Aggregation = Literal["mean", "dawid_skene", "calibrated", "stacked", "majority", "agreement"]
MEASURED: tuple[Aggregation, ...] = ("calibrated", "stacked")
"""Aggregations that need a calibration."""
ComposerName = Literal["sentence", "sentences", "grid", "triplets", "table6", "llm", "stages"]
CHAT_COMPOSERS: tuple[ComposerName, ...] = ("table6", "llm", "stages")
"""Composers that ask a language model."""
ComposerFailure = Literal["sentences", "fail"]
OutputTokens = dict[Role, Annotated[int, Field(ge=1)]]
LOCAL_BACKEND = "diffusers"
LOCAL_JUDGE = "local"
"""The kind of judges that are models on this machine."""
JUDGE_KINDS: Mapping[str, str] = {
    LOCAL_JUDGE: "scenewright.runs.model_factory.local_models:shared_local_judge",
    "replay": "scenewright.agents.judges.replay:replay_judge",
    "olip": "scenewright.runs.model_factory.local_models:realism_judge_of",
}
"""Kinds of judges without an account → factory as ``module:function``, which takes the judge
(``kind:model``), the settings and the detector of its profile. Other kinds are names of accounts.
"""
REALISM_KINDS = ("olip",)
"""Kinds of judges that judge only realism, and need a detector."""
REALISM_FIELDS = frozenset({"realism_judges", "realism_report_judges", "detector"})
"""Fields of a profile that are ignored unless realism is on."""
ACCOUNTS = "accounts"
"""Key of the settings' accounts in the validation context."""
DECISION_RISK = 0.05
"""Risk of ``cascade = "decision"``."""
DIRECTED = "directed"
"""Key in the validation context: true where a director replaces ``chat``."""
DIRECTOR = "director"
"""Strategy with a graph of its own, in which a language model decides each step with tools."""
NO_TEXT = "answers typed questions and writes no text"
"""Problem of a decision judge where a language model is needed."""
CHAT_KINDS = ("scripted",)
"""Kinds of language models without an account."""


class SettingsError(ScenewrightError, ValueError):
    """A setting or profile that cannot be used: names the place and the remedy."""


def split_judge(judge: str) -> tuple[str, str]:
    """Split ``kind:model``.

    Raises ``SettingsError`` for another form.
    """
    kind, _, model = judge.partition(":")
    if ACCOUNT_NAME.fullmatch(kind) is None or not model:
        raise SettingsError(
            f"{judge!r} is not a judge: write 'kind:model', for example 'local:miniature/judge-a', "
            f"with a kind of {', '.join((*JUDGE_KINDS, *BUILT_IN_ACCOUNTS))} or an account of yours"
        )
    if kind == DECISION_KIND:
        split_decision(model)
    return kind, model


def split_decision(model: str) -> tuple[str, str]:
    """Split a decision judge's ``ACCOUNT/MODEL``.

    Raises ``SettingsError``.
    """
    account, _, name = model.partition("/")
    if ACCOUNT_NAME.fullmatch(account) is None or not name:
        raise SettingsError(
            f"'{DECISION_KIND}:{model}' is not a decision judge: write "
            f"'{DECISION_KIND}:ACCOUNT/MODEL', for example '{DECISION_KIND}:openai/gpt-6-luna'"
        )
    return account, name


def reached_by(spec: str) -> tuple[str, str]:
    """Return account (or kind) and model of a judge ``kind:model``.

    Of a decision judge: those behind ``decision:``. Raises as :func:`split_judge`.
    """
    kind, model = split_judge(spec)
    return split_decision(model) if kind == DECISION_KIND else (kind, model)


def local_model_of(judge: str) -> str | None:
    """Return the local model of a judge; None for another kind of judge."""
    kind, model = reached_by(judge)
    return model if kind == LOCAL_JUDGE else None


def account_of(judge: str) -> str | None:
    """Return the account of the judge ``kind:model``; None for a local judge.

    Raises as :func:`split_judge`.
    """
    kind, _ = reached_by(judge)
    return None if kind in JUDGE_KINDS else kind


_LOCAL_ONLY = (
    "adapter", "device", "dtype", "scheduler", "variant", "offload", "compile", "slicing", "cache",
    "loras", "quantization", "prompt_upsampler", "base_model",
)  # fmt: skip
Offload = Literal["auto", "none", "parts", "layers"]


class BackendSpec(BaseModel):
    """Image backend.

    ``"diffusers:MODEL"`` and ``"ACCOUNT:MODEL"`` are the short form.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = LOCAL_BACKEND
    """``diffusers``, or the account of an image API (``openai``, ``gemini`` or one of yours)."""
    model: str = Field(min_length=1)
    """A folder, a hub id, a ``*.safetensors`` file, or ``miniature`` for the model that comes with
    the package; of an account, the provider's name of the model."""
    base_model: str | None = Field(
        default=None, min_length=1, exclude_if=lambda chosen: chosen is None
    )
    """Of a single file: the whole model, a folder or a hub id, that has what the file lacks; None:
    the one that its family was published as."""
    adapter: AdapterSpec | None = None
    """IP-Adapter for reference images; None: the loop redraws without references."""
    loras: tuple[LoraSpec, ...] = ()
    """LoRAs, which change what the model draws, or how few steps it needs."""
    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format of the weights."""
    scheduler: str | None = None
    """A diffusers scheduler class; None: the model's own."""
    variant: str | None = None
    """Weights variant, for example ``fp16``."""
    offload: Offload = "auto"
    """Weights that wait in main memory while unused: ``none``, whole ``parts``, or ``layers``
    (slow, but fits nearly anywhere); ``auto``: as little as the free device memory allows."""
    compile: bool = False
    """Compile the repeated blocks of the denoiser: a minute at first, faster pictures later."""
    slicing: bool | None = None
    """Compute attention and the autoencoder in slices: less memory, slower; None: where the
    device's free memory asks for it."""
    quantization: QuantizationSpec | None = None
    """Weights stored in few bits: less memory, other pictures; None: as ``dtype`` says."""
    cache: CacheSpec | None = None
    """Reuse of the denoiser's computations between steps: faster, other pictures; None: none."""
    prompt_upsampler: str | None = Field(
        default=None, min_length=1, exclude_if=lambda chosen: chosen is None
    )
    """Of FLUX 3: the model that writes each prompt in full and takes the places of things, a folder
    or a hub id; None: prompts stay as they are."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels of what is drawn; None: the model's own."""
    quality: str | None = None
    """Of an account: the provider's name of a quality (``low``, …)."""
    complexity: str | None = Field(default=None, exclude_if=lambda chosen: chosen is None)
    """Of an account: the provider's name of how much planning goes into a picture (``low``, …)."""
    partial_images: int = Field(default=0, ge=0, le=16, exclude_if=lambda count: count == 0)
    """Pictures of a drawing while it is drawn, for the run's page; each takes time, and tokens of
    an account."""
    max_references: int | None = Field(
        default=None, ge=1, le=63, exclude_if=lambda count: count is None
    )
    """Most reference images of one picture, beside the picture that is changed; None: of an account
    what the facts of its model say, on this machine 2."""
    limits: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda limits: not limits)
    """Of an account: what its model takes where the table of facts lacks it or is wrong: ``sizes``,
    ``ratios``, ``masks``, … (docs/api-models.md)."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        kind, _, model = value.partition(":")
        if not kind or not model:
            raise ValueError(
                f"{value!r} is not a backend: write 'kind:model', for example "
                "'diffusers:miniature' or 'openai:gpt-image-2.6-flare'"
            )
        return {"kind": kind, "model": model}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind != LOCAL_BACKEND and ACCOUNT_NAME.fullmatch(self.kind) is None:
            raise ValueError(
                f"{self.kind}:{self.model} is not a backend: write 'kind:model' with the kind "
                f"{LOCAL_BACKEND} or an account, for example 'diffusers:miniature' or "
                "'openai:gpt-image-2.6-flare'"
            )
        if self.kind != LOCAL_BACKEND:
            wrong = [
                name
                for name in _LOCAL_ONLY
                if getattr(self, name) != type(self).model_fields[name].default
            ]
            if wrong:
                raise ValueError(f"{', '.join(wrong)}: only for models on this machine, leave out")
        for name in ("quality", "complexity", "limits"):
            if self.kind == LOCAL_BACKEND and getattr(self, name):
                raise ValueError(f"{name}: only for image APIs, leave it out")
        return self

    def limits_over(self, declared: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the limits that an account declares for its model, with those of this spec."""
        own = {} if self.max_references is None else {"pictures": 1 + self.max_references}
        return {**(declared or {}), **own, **self.limits}


class LocalJudgeSpec(BaseModel):
    """Loading and asking of local judges (``local:…``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quantization: Literal["none", "4bit"] = "none"
    """Number format of the linear layers' weights: the model's own, or ``4bit`` (NF4), which needs
    the extra ``quantization``."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format of the other weights; ``auto``: float32 on the CPU, bfloat16 elsewhere."""
    offload: bool = False
    """Whether a judge's weights wait in main memory while it is not asked, so that several judges
    and the image model share a device.
    """
    thinking_tokens: int = Field(default=2048, ge=1, le=65_536)
    """Most tokens that a thinking judge may write before its answer; a longer question is unscored.
    """

    def describe(self) -> str:
        """Return the unusual settings of the weights, in words; empty if there are none."""
        words = ["linear layers in 4 bit"] if self.quantization == "4bit" else []
        words += [] if self.dtype == "auto" else [f"weights in {self.dtype}"]
        return ", ".join(words + ["offloaded between questions"] * self.offload)


class CascadeSpec(BaseModel):
    """Which judges of a panel are asked first, and when the others are asked too."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    first: tuple[str, ...] = Field(min_length=1)
    """The cheap judges, some of the profile's ``judges``; all facts go to them."""
    unsure: tuple[float, float] = (0.1, 0.9)
    """A fact whose probability by the first judges lies from the lower to the upper bound goes
    to the others too, and so does one that they left unscored. Unused with a ``risk``."""
    risk: float | None = Field(default=None, gt=0.0, lt=0.5, exclude_if=lambda risk: risk is None)
    """Largest share of wrong verdicts among those decided by the first judges alone. Takes the
    bounds measured for it by the profile's calibration, by kind of question.
    """
    confidence: float = Field(
        default=0.95, gt=0.0, lt=1.0, exclude_if=lambda chance: chance == 0.95
    )
    """Chance that these bounds keep to the risk, over draws of the labelled pictures."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.unsure
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"unsure is {low}, {high}: give two bounds in [0, 1], the lower first")
        # A serialised spec has the default bounds and its risk.
        if self.risk is not None and self.unsure != type(self).model_fields["unsure"].default:
            raise ValueError("give unsure or risk: a risk takes its bounds from a calibration")
        return self


class Profile(RepairOptions, ImageOptions):
    """A named set of models and options."""

    name: str
    about: str = ""
    """One sentence for lists."""
    backend: BackendSpec
    composer: ComposerName = "sentence"
    """Writes prompts: ``sentence`` (the sentence that the scene was read from; without one, as
    ``sentences``), ``sentences`` (plain English from the graph, without a model), ``triplets``
    (the paper's baseline), ``table6`` (a language model with the paper's prompt as printed),
    ``llm`` (the same, with our rules and a check that no fact is lost), ``stages`` (object by
    object), or ``grid``
    (the words of the miniature world). Default: ``llm`` where there is a ``chat``.
    """
    composer_failure: ComposerFailure = Field(
        default="sentences", exclude_if=lambda chosen: chosen == "sentences"
    )
    """If ``llm`` or ``stages`` give no complete text, even when asked again: write the prompt with
    ``sentences`` and report it, or stop the run (``fail``).
    """
    chat: str | None = None
    """The language model ``kind:model`` that composes (``table6``, ``llm``, ``stages``), parses
    and directs (strategy ``director``); the kind is an account, or ``scripted`` for one without a
    model."""
    reader: SentenceReader | None = Field(default=None, exclude_if=lambda chosen: chosen is None)
    """Parser of sentences: the ``chat`` (``llm``), or the ``rules``, which need no model and read
    English; None: ``llm`` where there is a ``chat`` with a key.
    """
    composer_defaults: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Attributes that ``grid`` adds to a class where the scene has none: ``{"tree": {"color":
    "green"}}``.
    """
    judges: tuple[str, ...] = Field(min_length=1)
    """Judges of the loop, each ``kind:model``."""
    report_judges: tuple[str, ...] = ()
    """Judges that the loop never uses; a run reports their score. Different models than
    :attr:`judges` and the director's :attr:`chat`, unless :attr:`self_report` is set.
    """
    self_report: bool = Field(default=False, exclude_if=lambda said: not said)
    """Whether loop models may report the result, as in Scene-Bench's paper: without
    ``report_judges`` the ``judges`` do. The result is labelled a self-report.
    """
    realism_judges: tuple[str, ...] = ()
    """Judges of the loop for the realism of objects, where a run asks for it; none: ``judges``."""
    realism_report_judges: tuple[str, ...] = ()
    """Judges of the report for the realism of objects; none: ``report_judges``."""
    detector: str | None = None
    """Finds the objects whose realism is judged: ``miniature``, ``json:FILE`` or
    ``transformers:MODEL``; required by judges of the kind ``olip``.
    """
    local_judges: LocalJudgeSpec | None = Field(
        default=None, exclude_if=lambda chosen: chosen is None
    )
    """Loading of local judges; None: as in the settings."""
    output_tokens: OutputTokens = Field(default_factory=dict, exclude_if=lambda given: not given)
    """Most output tokens of one reply by role; missing roles as in the settings."""
    aggregation: Aggregation = "mean"
    """Rule by which the panel turns answers into verdicts."""
    quorum: int = Field(default=1, ge=1)
    """Fewest judges with a usable answer that a verdict needs."""
    calibration: Path | None = None
    """File of ``scenewright judges calibrate``, from the working folder if it is relative:
    what the aggregations ``calibrated`` and ``stacked`` learnt, and scores corrected for the
    panel's errors."""
    cascade: CascadeSpec | None = None
    """Ask the loop's cheap judges first, and the others only where these are unsure; the judges
    of the report are always all asked."""
    limit_usd: float | None = Field(
        default=None, gt=0, allow_inf_nan=True, exclude_if=lambda limit: limit is None
    )
    """Most dollars of one run from the command line; None: as in the settings."""

    @model_validator(mode="before")
    @classmethod
    def _composer(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.get("cascade") == DECISION_KIND:
            value = {**value, "cascade": _decision_cascade(value.get("judges"))}
        if value.get("composer") == "rules":
            # The name of the grid in profiles and manifests before there were plain sentences.
            return {**value, "composer": "grid"}
        chat = value.get("chat")
        if "composer" not in value and isinstance(chat, str):
            kind = chat.partition(":")[0]
            return value if kind in CHAT_KINDS else {**value, "composer": "llm"}
        return value

    @field_validator("judges", "report_judges", "realism_judges", "realism_report_judges")
    @classmethod
    def _known_kinds(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for judge in value:
            kind, _ = split_judge(judge)
            if kind in REALISM_KINDS and info.field_name not in REALISM_FIELDS:
                raise ValueError(
                    f"{judge} judges the realism of objects only: name it in "
                    f"realism_{info.field_name}"
                )
        if len(set(value)) != len(value):
            raise ValueError("a judge is listed twice: its second vote would count double")
        return value

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        self._check_apart(info)
        self._check_detector()
        fewest = min(len(self.judges), len(self.report_judges) or len(self.judges))
        if self.quorum > fewest:
            raise ValueError(f"the quorum is {self.quorum}, but a panel has only {fewest} judges")
        directs = self.strategy == DIRECTOR and not (info.context or {}).get(DIRECTED)
        if self.chat is None and (self.composer in CHAT_COMPOSERS or directs):
            asked = self.strategy if directs else f"composer {self.composer}"
            raise ValueError(f"the {asked} needs a language model: name one as chat = 'kind:model'")
        if self.chat is None and self.reader == "llm":
            raise ValueError(
                "the reader llm needs a language model: name one as chat = 'kind:model'"
            )
        if self.chat is not None and split_judge(self.chat)[0] == DECISION_KIND:
            raise ValueError(f"{self.chat} {NO_TEXT}: name a language model as chat")
        if self.aggregation in MEASURED and self.calibration is None:
            raise ValueError(
                f"the aggregation {self.aggregation!r} needs a calibration: name the file that "
                "`scenewright judges calibrate` wrote"
            )
        if self.cascade is not None:
            self._check_cascade(self.cascade)
        return self

    def identities(
        self, accounts: Mapping[str, AccountSpec] | None = None
    ) -> tuple[list[ModelIdentity], list[ModelIdentity], ModelIdentity | None]:
        """Return the models of the loop, of the report and of the director by their names.

        ``accounts`` are those of the settings.
        """
        directs = self.strategy == DIRECTOR and self.chat is not None
        return (
            identities_of((*self.judges, *self.realism_judges), accounts),
            identities_of((*self.report_judges, *self.realism_report_judges), accounts),
            identity_of_spec(self.chat or "", accounts) if directs else None,
        )

    def _check_apart(self, info: ValidationInfo) -> None:
        # The settings' accounts resolve names of their own.
        context = info.context or {}
        loop, report, director = self.identities(context.get(ACCOUNTS))
        if context.get(DIRECTED):
            director = None
        problem = independence_problem(loop, report, director, self_report=self.self_report)
        if problem:
            raise ValueError(problem)

    @property
    def accounts(self) -> frozenset[str]:
        """Names of the accounts that its models are reached through; empty: all are here."""
        judges = (*self.judges, *self.report_judges)
        judges += (*self.realism_judges, *self.realism_report_judges)
        found = {account for judge in judges if (account := account_of(judge)) is not None}
        if self.backend.kind != LOCAL_BACKEND:
            found.add(self.backend.kind)
        if self.chat is not None and (kind := split_judge(self.chat)[0]) not in CHAT_KINDS:
            found.add(kind)
        return frozenset(found)

    def form(self, realism: bool = False) -> QuestionForm:
        """Return how scenes are asked about; with ``realism``, also how real objects look."""
        return QuestionForm(self.protocol, self.predicates, realism)

    def _check_detector(self) -> None:
        if self.detector is not None:
            return
        for judge in (*self.realism_judges, *self.realism_report_judges):
            if split_judge(judge)[0] in REALISM_KINDS:
                raise ValueError(
                    f"{judge} judges what a detector finds: name one, for example "
                    "detector = 'transformers:OWNER/NAME', or 'miniature'"
                )

    def _check_cascade(self, cascade: CascadeSpec) -> None:
        first = set(cascade.first)
        if first - set(self.judges) or len(first) != len(cascade.first):
            raise ValueError(
                f"the cascade begins with {', '.join(cascade.first)}: name some of the profile's "
                "judges, each once"
            )
        if len(first) == len(self.judges):
            raise ValueError("the cascade begins with all judges: leave some for the second step")
        if self.quorum > len(first):
            raise ValueError(
                f"the quorum is {self.quorum}, but the cascade begins with {len(first)}: every "
                "fact would go to all judges"
            )
        if cascade.risk is not None and self.calibration is None:
            raise ValueError(
                f"the cascade's risk of {cascade.risk:g} needs a calibration: name the file that "
                "`scenewright judges calibrate` wrote"
            )


def _decision_cascade(judges: object) -> dict[str, Any]:
    """Return the cascade of ``cascade = "decision"``: decision judges first, at the usual risk."""
    named = judges if isinstance(judges, list | tuple) else ()
    first = [judge for judge in named if str(judge).startswith(f"{DECISION_KIND}:")]
    if not first:
        raise ValueError(
            f'cascade = "{DECISION_KIND}" asks decision judges first, but judges has none: add, '
            f"for example '{DECISION_KIND}:openai/gpt-6-luna', or give the cascade "
            "as a table with first and risk"
        )
    return {"first": first, "risk": DECISION_RISK}


def _built_in(tables: Mapping[str, dict[str, Any]]) -> dict[str, Profile]:
    """Return the profiles of ``tables``; ``extends`` in one names another that it begins with."""
    found = {}
    for name, own in tables.items():
        fields = tables[own["extends"]] | own if "extends" in own else dict(own)
        fields.pop("extends", None)
        found[name] = Profile(name=name, **fields)
    return found


BUILT_IN: Mapping[str, Profile] = _built_in(read_data(__package__, "built_in_profiles.toml"))
"""Built-in profiles by name."""
