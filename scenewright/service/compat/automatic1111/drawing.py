"""From ``txt2img`` to runs, and from runs to its reply.

How far a caller's newest request is, and interrupting it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scenewright.config.profiles import Profile
from scenewright.core.images import ImageError, ImageStore
from scenewright.core.ports.backend import BackendFeatures
from scenewright.core.version import VERSION
from scenewright.graphs.errors import LogError
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Generated
from scenewright.runs.folder import EVENTS, IMAGES, MANIFEST
from scenewright.runs.result import RunResult
from scenewright.service.compat.adapter import (
    AcceptedRequest,
    Outcome,
    Size,
    accept,
    cancel_run,
    encoded_picture,
    features_of,
    size_words,
)
from scenewright.service.compat.automatic1111.bodies import (
    CHECKPOINT,
    OWN_SAMPLER,
    Progress,
    State,
    TextToImage,
    TextToImageReply,
    plain_words,
    runnable_profile,
)
from scenewright.service.compat.automatic1111.ignored import ignored_of
from scenewright.service.compat.automatic1111.infotexts import written
from scenewright.service.core.errors import NotFound, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.schemas import Door, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import MAX_LISTED, Run

MOST_SEED = 2**32
"""Random seeds lie below: plug-ins keep them in 32 bits."""
DOOR: Door = "a1111"
_DRAWN = 0.5
"""Share of a round that is over when its candidate is drawn and not judged yet."""
_NEARLY = 0.95


@dataclass(frozen=True, slots=True)
class SentPicture:
    """A picture of a reply, and how it really came about."""

    outcome: Outcome
    """The run, which has a picture."""
    content: str
    """The PNG file with its infotext, in base64."""
    infotext: str
    """Origin of the picture in AUTOMATIC1111's form."""
    size: Size
    """(width, height) in pixels as it is sent."""
    steps: int
    """Denoising steps that were done for it."""
    guidance: float
    """Guidance scale that it was drawn with."""
    sampler: str
    """Scheduler that it was drawn with."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A request whose runs were taken in, and what draws its pictures."""

    accepted: AcceptedRequest[TextToImage]
    """The request."""
    profile: Profile
    """Profile that draws and judges."""
    features: BackendFeatures
    """Abilities of its backend."""
    ignored: dict[str, str]
    """Parameters without effect, each with the reason."""

    @property
    def steps(self) -> int:
        """Denoising steps that the profile asks for."""
        return self.profile.steps or self.features.default_steps

    @property
    def guidance(self) -> float:
        """Guidance scale that the profile asks for."""
        guidance = self.profile.guidance
        return self.features.default_guidance if guidance is None else guidance

    async def reply(self, service: Service, base_url: str) -> TextToImageReply:
        """Return the pictures of the runs, which stand still.

        Raises ``RunFailed`` if none has a picture and none was interrupted.
        """
        accepted, body = self.accepted, self.accepted.body
        interrupted = any(run.status == "cancelled" for run in accepted.runs)
        outcomes = await accepted.outcomes(service, base_url, needed=not interrupted)
        sent = [
            await self._picture(service, outcome, outcome.image.hash)
            for outcome in outcomes
            if outcome.image is not None
        ]
        # JSON cannot hold all numbers and texts of a request.
        told = json.dumps(body.model_dump(mode="json", exclude={"scenewright"}), ensure_ascii=False)
        sound = told.encode(errors="replace").decode()
        return TextToImageReply(
            images=tuple(one.content for one in sent) if body.send_images else (),
            parameters=json.loads(sound, parse_constant=lambda _: None),
            info=json.dumps(self._info(sent)),
            ignored=self.ignored,
            scenewright=outcomes,
        )

    async def _picture(self, service: Service, outcome: Outcome, image: str) -> SentPicture:
        log = await service.artifacts.log(outcome.id)
        drawing, details = await asyncio.to_thread(_drawing_of, log, image)
        _, _, own = await encoded_picture(service, outcome.id, image)
        body, size = self.accepted.body, self.accepted.size or own
        request = drawing.request if drawing is not None else None
        done = drawing.steps if drawing is not None else None
        steps = done or (request and request.steps) or self.steps
        guidance = request.guidance if request is not None else None
        guidance = self.guidance if guidance is None else guidance
        sampler = str(details.get("scheduler") or OWN_SAMPLER)
        seed = request.seed if request is not None else outcome.seed
        scores, unjudged = outcome.sgscore, [f for f in outcome.facts if f.verdict == "unscored"]
        told: dict[str, object] = {
            "Steps": steps,
            "Sampler": sampler,
            "CFG scale": guidance,
            "Seed": outcome.seed,
            "Size": size_words(size),
            "Model": self.profile.name,
            "Drawn by": f"{self.profile.backend.kind}:{self.profile.backend.model}",
            "Drawn with seed": seed if seed != outcome.seed else None,
            "Drawn at": size_words(own) if own != size else None,
            "Scaled by": "Lanczos" if own != size else None,
            "Drawn from": outcome.prompt,
            "Rounds": outcome.rounds,
            "SGScore": _score(scores.report),
            "SGScore by": scores.reporting.line.partition(":")[0]
            if scores.reporting.kind == "self"
            else None,
            "SGScore of the loop": _score(scores.loop),
            "Missing": "; ".join(f.statement for f in outcome.facts if f.verdict in ("no", "void")),
            "Not judged": "; ".join(fact.statement for fact in unjudged) or None,
            "Version": f"scenewright {VERSION}",
        }
        avoided = request.negative_prompt if request is not None else body.negative_prompt
        text = written(body.prompt, avoided if self.features.negative_prompt else "", told)
        content, _, _ = await encoded_picture(
            service, outcome.id, image, size=self.accepted.size, text=text
        )
        return SentPicture(outcome, content, text, size, steps, guidance, sampler)

    def _info(self, sent: Sequence[SentPicture]) -> dict[str, object]:
        accepted, body = self.accepted, self.accepted.body
        seeds = [one.outcome.seed for one in sent]
        many = len(sent)
        first = sent[0] if sent else None
        size = first.size if first else accepted.size or self.features.default_size
        return {
            "prompt": body.prompt,
            "all_prompts": [body.prompt] * many,
            "negative_prompt": body.negative_prompt,
            "all_negative_prompts": [body.negative_prompt] * many,
            "seed": seeds[0] if seeds else accepted.runs[0].request["seed"],
            "all_seeds": seeds,
            "subseed": -1,
            "all_subseeds": [-1] * many,
            "subseed_strength": 0,
            "width": size[0],
            "height": size[1],
            "sampler_name": first.sampler if first else OWN_SAMPLER,
            "cfg_scale": first.guidance if first else self.guidance,
            "steps": first.steps if first else self.steps,
            "batch_size": body.batch_size,
            "restore_faces": False,
            "face_restoration_model": None,
            "sd_model_name": self.profile.name,
            "sd_model_hash": "",
            "sd_vae_name": None,
            "sd_vae_hash": None,
            "seed_resize_from_w": -1,
            "seed_resize_from_h": -1,
            "denoising_strength": None,
            "extra_generation_params": {},
            "index_of_first_image": 0,
            "infotexts": [one.infotext for one in sent],
            "styles": [],
            "job_timestamp": time.strftime("%Y%m%d%H%M%S", time.gmtime(accepted.runs[0].created)),
            "clip_skip": 1,
            "is_using_inpainting_conditioning": False,
            "version": f"scenewright {VERSION}",
            "ignored": self.ignored,
            "scenewright": [
                {
                    "run": one.outcome.id,
                    "page": one.outcome.page,
                    "sgscore": one.outcome.sgscore.model_dump(),
                    "facts": {fact.statement: fact.verdict for fact in one.outcome.facts},
                    "warnings": one.outcome.warnings,
                }
                for one in sent
            ],
        }


async def submit(
    service: Service, identity: Identity, body: TextToImage, key: str | None
) -> Drawing:
    """Take the runs of a request in; ``key``: its idempotency key. Raises ``ServiceError``."""

    def read() -> RefinementRequest:
        own = body.scenewright
        named = own.profile or body.override_settings.get(CHECKPOINT)
        profile = runnable_profile(service, identity, named)
        if not body.prompt.strip():
            raise Unprocessable("the text of the prompt is empty: say what is to be seen")
        return own.request(
            service,
            plain_words(body.prompt),
            steps=body.steps,
            guidance=body.cfg_scale,
            negative_prompt=body.negative_prompt or None,
            profile=profile,
        )

    request = await asyncio.to_thread(read)
    features = await features_of(service, request)
    if body.seed >= 0:
        seed = body.seed
    elif key is None:
        seed = secrets.randbelow(MOST_SEED)
    else:
        # The same key is the same request: its random seed is the same too.
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    sent = json.dumps(body.model_dump(mode="json"), sort_keys=True)
    accepted = await accept(
        service,
        identity,
        body,
        request.model_copy(update={"seed": seed}),
        DOOR,
        count=body.count,
        size=body.size(features.default_size),
        group=secrets.token_hex(16) if key is None else hashlib.sha256(key.encode()).hexdigest(),
        key=key,
        content=hashlib.sha256(sent.encode()).hexdigest(),
    )
    profile = await asyncio.to_thread(service.profile, accepted.request)
    return Drawing(accepted, profile, features, ignored_of(body, features))


def _group_of(run: Run) -> str:
    """Return the key that the runs of one request share."""
    parts = (run.idempotency_key or "").split(":")
    return parts[1] if parts[0] == DOOR and len(parts) > 1 else run.id


def _drawing_of(folder: Path, image: str) -> tuple[Generated | None, dict[str, object]]:
    """Return how the picture of that hash was drawn, and the backend's own details of it.

    The details are empty where the run's folder is kept elsewhere.
    """
    try:
        drawn = [
            event
            for event in read_events(folder / EVENTS)
            if isinstance(event, Generated) and event.image == image
        ]
    except LogError:
        return None, {}
    if not drawn:
        return None, {}
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        key = drawn[-1].request.key(manifest["models"]["backend"]["fingerprint"])
        noted = ImageStore(folder / IMAGES).recall(key)
    except (OSError, ValueError, KeyError, TypeError, ImageError):
        noted = None
    details = noted[1].get("details") if noted is not None else None
    return drawn[-1], details if isinstance(details, dict) else {}


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


async def at_work(service: Service, identity: Identity) -> list[Run]:
    """Return the waiting and running runs of the tenant's newest request, newest first."""
    found, _ = await service.store.list(
        identity.tenant, status=("queued", "running"), limit=MAX_LISTED
    )
    mine = [run for run in found if run.door == DOOR]
    return [run for run in mine if _group_of(run) == _group_of(mine[0])]


async def progress_of(service: Service, identity: Identity, shown: bool) -> Progress:
    """Return the progress of the newest request; ``shown``: with the newest candidate."""
    runs = await at_work(service, identity)
    if not runs:
        return Progress()
    results = [await service.result(run) for run in runs]
    # Those that have ended are no longer at work; they were begun with these.
    newest, _ = await service.store.list(identity.tenant, limit=MAX_LISTED, brief=True)
    begun = {run.id for run in newest if _group_of(run) == _group_of(runs[0])}
    many = len(begun | {run.id for run in runs})
    done = many - len(runs)
    shares = 0.0
    for run, result in zip(runs, results, strict=True):
        cards = [one.loop_card for one in result.rounds] if result is not None else []
        over = sum(_DRAWN if card is None else 1.0 for card in cards)
        shares += min(_NEARLY, over / _rounds_of(run))
    share = min(_NEARLY, (done + shares) / many)
    began = min(run.created for run in runs)
    elapsed = max(0.0, time.time() - began)
    run, result = _foremost(runs, results)
    most = _rounds_of(run)
    drawn = len(result.rounds) if result is not None else 0
    image = None
    if shown and result is not None and result.rounds:
        with suppress(NotFound):
            image, _, _ = await encoded_picture(service, run.id, result.rounds[-1].image)
    return Progress(
        progress=share,
        eta_relative=elapsed * (1 - share) / share if share > 0 else 0.0,
        state=State(
            job=run.id,
            job_count=many,
            job_timestamp=time.strftime("%Y%m%d%H%M%S", time.gmtime(began)),
            job_no=done,
            sampling_step=drawn,
            sampling_steps=most,
        ),
        current_image=image,
        textinfo=f"round {drawn} of at most {most}" if drawn else "in line",
    )


async def skip(service: Service, identity: Identity) -> None:
    """Cancel the run at work of the newest request: it gives what it has; the others go on."""
    runs = await at_work(service, identity)
    if runs:
        results = [await service.result(run) for run in runs]
        await cancel_run(service, identity, _foremost(runs, results)[0])


async def interrupt(service: Service, identity: Identity) -> None:
    """Cancel the newest request; what it has drawn and judged is what it gives."""
    for run in await at_work(service, identity):
        await cancel_run(service, identity, run)


def _rounds_of(run: Run) -> int:
    """Return the most rounds of a run, without reading its scene."""
    return int(run.request["rounds"])


def _foremost(
    runs: Sequence[Run], results: Sequence[RunResult | None]
) -> tuple[Run, RunResult | None]:
    """Return the newest run that has begun, else the newest."""
    pairs = list(zip(runs, results, strict=True))
    return next((pair for pair in pairs if pair[1] is not None and pair[1].rounds), pairs[0])
