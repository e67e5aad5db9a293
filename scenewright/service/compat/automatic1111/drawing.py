"""From ``txt2img`` to runs, and from runs to its reply.

How far a caller's newest request is, and interrupting it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from scenewright.config.profiles import Profile
from scenewright.core.ports.backend import BackendFeatures
from scenewright.core.version import VERSION
from scenewright.runs.records import RunResult
from scenewright.service.compat.automatic1111.bodies import (
    CHECKPOINT,
    Progress,
    State,
    TextToImage,
    TextToImageReply,
    chosen_profile,
    known_profile,
    plain_words,
)
from scenewright.service.core.errors import NotFound
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import (
    Outcome,
    drawn_at,
    features_of,
    give_up,
    no_picture,
    outcome_of,
    submit_all,
)
from scenewright.service.core.pictures import picture_file
from scenewright.service.core.requests import profile_of
from scenewright.service.core.schemas import Door, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import MAX_LISTED, Run

MOST_SEED = 2**32
"""Random seeds lie below: plug-ins keep them in 32 bits."""
DOOR: Door = "a1111"
_KEY = "a1111"


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A request that was taken in."""

    body: TextToImage
    """What was asked."""
    runs: tuple[Run, ...]
    """One a picture."""
    profile: Profile
    """What draws and judges."""
    features: BackendFeatures
    """What its backend can do."""


async def order(
    service: Service, identity: Identity, body: TextToImage, key: str | None
) -> AcceptedRequest:
    """Take the runs of a request in; ``key``: its idempotency key. Raises ``ServiceError``."""
    request = await asyncio.to_thread(_request, service, identity, body)
    features = await features_of(service, request)
    if body.size is not None:
        request = drawn_at(request, body.size, features)
    if body.seed >= 0:
        seed = body.seed
    elif key is None:
        seed = secrets.randbelow(MOST_SEED)
    else:
        # The same key is the same request: its random seed is the same too.
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    group = secrets.token_hex(16) if key is None else hashlib.sha256(key.encode()).hexdigest()
    requests = [
        request.model_copy(
            update={"seed": seed + at, "idempotency_key": f"{_KEY}:{group}:{at}:{body.count}"}
        )
        for at in range(body.count)
    ]
    runs = await submit_all(service, identity, requests, DOOR)
    profile = await asyncio.to_thread(profile_of, request, service.base, service.settings.profiles)
    return AcceptedRequest(body, tuple(runs), profile, features)


def group_of(run: Run) -> tuple[str, int]:
    """Return the shared settings of the runs of one request, and their number."""
    parts = (run.idempotency_key or "").split(":")
    if len(parts) != 4 or parts[0] != _KEY or not parts[3].isdecimal():
        return run.id, 1
    return parts[1], int(parts[3])


async def reply_of(
    service: Service, ordered: AcceptedRequest, runs: Sequence[Run], base_url: str
) -> TextToImageReply:
    """Return the pictures of ``runs``, which stand still.

    Raises ``RunFailed`` if none has a picture and none was interrupted.
    """
    found = [await outcome_of(service, run, base_url) for run in runs]
    drawn = [outcome for outcome in found if outcome.image is not None]
    if not drawn and not any(run.status == "cancelled" for run in runs):
        raise no_picture(found)
    texts = [infotext(ordered, outcome) for outcome in drawn]
    images: list[str] = []
    sizes: list[tuple[int, int]] = []
    for outcome, text in zip(drawn, texts, strict=True):
        assert outcome.image is not None
        path = await service.artifacts.image(outcome.id, outcome.image.hash)
        data, size, _ = await asyncio.to_thread(
            picture_file, path, size=ordered.body.size, text=text
        )
        images.append(base64.b64encode(data).decode())
        sizes.append(size)
    others = [outcome for outcome in found if outcome.image is None]
    size = sizes[0] if sizes else ordered.body.size or ordered.features.default_size
    return TextToImageReply(
        images=tuple(images) if ordered.body.send_images else (),
        parameters=ordered.body.model_dump(mode="json", exclude={"scenewright"}),
        info=json.dumps(_info(ordered, drawn, texts, size)),
        scenewright=(*drawn, *others),
    )


def infotext(ordered: AcceptedRequest, outcome: Outcome) -> str:
    """How a picture came about, in AUTOMATIC1111's form, its scores and what it lacks besides."""
    body = ordered.body
    width, height = body.size or ordered.features.default_size
    told: dict[str, object] = {
        "Steps": _steps(ordered),
        "Sampler": body.sampler_name,
        "CFG scale": _guidance(ordered),
        "Seed": outcome.seed,
        "Size": f"{width}x{height}",
        "Model": ordered.profile.name,
        "Rounds": outcome.rounds,
        "SGScore": _score(outcome.sgscore.report),
        "SGScore by": outcome.sgscore.reporting.line.partition(":")[0]
        if outcome.sgscore.reporting.kind == "self"
        else None,
        "SGScore of the loop": _score(outcome.sgscore.loop),
        "Missing": "; ".join(f.statement for f in outcome.facts if f.verdict in ("no", "void")),
        "Not judged": "; ".join(f.statement for f in outcome.facts if f.verdict == "unscored")
        or None,
        "Version": f"scenewright {VERSION}",
    }
    lines = [body.prompt]
    if body.negative_prompt:
        lines.append(f"Negative prompt: {body.negative_prompt}")
    lines.append(
        ", ".join(f"{name}: {_quoted(value)}" for name, value in told.items() if value is not None)
    )
    return "\n".join(lines)


def _request(service: Service, identity: Identity, body: TextToImage) -> RefinementRequest:
    own = body.scenewright
    named = own.profile or (body.override_settings or {}).get(CHECKPOINT)
    if named is not None:
        profile = known_profile(service, named)
    else:
        profile = chosen_profile(service, identity)
    return own.request(
        plain_words(body.prompt),
        steps=body.steps,
        guidance=body.cfg_scale,
        negative_prompt=body.negative_prompt or None,
        profile=profile,
    )


def _info(
    ordered: AcceptedRequest, drawn: Sequence[Outcome], texts: Sequence[str], size: tuple[int, int]
) -> dict[str, object]:
    body, seeds = ordered.body, [outcome.seed for outcome in drawn]
    many = len(drawn)
    return {
        "prompt": body.prompt,
        "all_prompts": [body.prompt] * many,
        "negative_prompt": body.negative_prompt,
        "all_negative_prompts": [body.negative_prompt] * many,
        "seed": seeds[0] if seeds else ordered.runs[0].request["seed"],
        "all_seeds": seeds,
        "subseed": -1,
        "all_subseeds": [-1] * many,
        "subseed_strength": 0,
        "width": size[0],
        "height": size[1],
        "sampler_name": body.sampler_name or "",
        "cfg_scale": _guidance(ordered),
        "steps": _steps(ordered),
        "batch_size": body.batch_size,
        "restore_faces": False,
        "face_restoration_model": None,
        "sd_model_name": ordered.profile.name,
        "sd_model_hash": "",
        "sd_vae_name": None,
        "sd_vae_hash": None,
        "seed_resize_from_w": -1,
        "seed_resize_from_h": -1,
        "denoising_strength": None,
        "extra_generation_params": {},
        "index_of_first_image": 0,
        "infotexts": list(texts),
        "styles": [],
        "job_timestamp": time.strftime("%Y%m%d%H%M%S", time.gmtime(ordered.runs[0].created)),
        "clip_skip": 1,
        "is_using_inpainting_conditioning": False,
        "version": f"scenewright {VERSION}",
        "scenewright": [
            {
                "run": outcome.id,
                "page": outcome.page,
                "sgscore": outcome.sgscore.model_dump(),
                "facts": {fact.statement: fact.verdict for fact in outcome.facts},
                "warnings": outcome.warnings,
            }
            for outcome in drawn
        ],
    }


def _steps(ordered: AcceptedRequest) -> int:
    return ordered.profile.steps or ordered.features.default_steps


def _guidance(ordered: AcceptedRequest) -> float:
    guidance = ordered.profile.guidance
    return ordered.features.default_guidance if guidance is None else guidance


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if any(mark in text for mark in ",:\n") or not text else text


_DRAWN = 0.5
"""Share of a round that is over when its candidate is drawn and not judged yet."""
_NEARLY = 0.95


async def at_work(service: Service, identity: Identity) -> list[Run]:
    """Return the waiting and running runs of the tenant's newest request, newest first."""
    found, _ = await service.store.list(
        identity.tenant, status=("queued", "running"), limit=MAX_LISTED
    )
    mine = [run for run in found if run.door == DOOR]
    return [run for run in mine if group_of(run)[0] == group_of(mine[0])[0]]


async def progress_of(service: Service, identity: Identity, shown: bool) -> Progress:
    """How far the newest request is; ``shown``: with the newest candidate."""
    runs = await at_work(service, identity)
    if not runs:
        return Progress()
    results = [await service.result(run) for run in runs]
    many = group_of(runs[0])[1]
    done = many - len(runs)
    shares = [_share(run, result) for run, result in zip(runs, results, strict=True)]
    share = min(_NEARLY, (done + sum(shares)) / many)
    began = min(run.created for run in runs)
    elapsed = max(0.0, time.time() - began)
    run, result = _foremost(runs, results)
    most = RefinementRequest.model_validate(run.request).rounds
    drawn = len(result.rounds) if result is not None else 0
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
        current_image=await _newest(service, run, result) if shown else None,
        textinfo=f"round {drawn} of at most {most}" if drawn else "in line",
    )


async def interrupt(service: Service, identity: Identity) -> None:
    """Cancel the newest request; what it has drawn and judged is what it gives."""
    for run in await at_work(service, identity):
        await give_up(service, identity, run)


def _share(run: Run, result: RunResult | None) -> float:
    if result is None:
        return 0.0
    done = sum(1.0 if record.loop_card is not None else _DRAWN for record in result.rounds)
    return min(_NEARLY, done / RefinementRequest.model_validate(run.request).rounds)


def _foremost(
    runs: Sequence[Run], results: Sequence[RunResult | None]
) -> tuple[Run, RunResult | None]:
    """Return the newest run that has begun, else the newest."""
    pairs = list(zip(runs, results, strict=True))
    return next((pair for pair in pairs if pair[1] is not None and pair[1].rounds), pairs[0])


async def _newest(service: Service, run: Run, result: RunResult | None) -> str | None:
    if result is None or not result.rounds:
        return None
    path = await service.artifacts.image(run.id, result.rounds[-1].image)
    try:
        data, *_ = await asyncio.to_thread(picture_file, path)
    except NotFound:
        return None
    return base64.b64encode(data).decode()
