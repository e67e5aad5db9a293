"""The Ray Serve application: a deployment for each model, and a gateway before them.

For ``serve run`` and RayService: ``import_path: scenewright.service.model_serving.app:build``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from scenewright.config.profiles import SettingsError
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import GenerationRequest
from scenewright.providers.model_serving import AnswerReply, ModelCard, Problem, ProblemLine
from scenewright.service.model_serving.args import ServedSpec, ServingArgs, serving_args, specs_of
from scenewright.service.model_serving.models import (
    Batched,
    LocalBackendEndpoint,
    LocalJudgeEndpoint,
    StreamItem,
    failed,
)

GATEWAY = "gateway"
CARD_SECONDS = 10.0
"""How long a gateway takes a model to be what it was."""
_CONSTRUCTIONS = 3
# A drawing under way may end before its replica does.
_DRAIN_SECONDS = 120.0
_COME_BACK = 1.0


class JudgeReplica(LocalJudgeEndpoint):
    """A replica of a judge."""

    async def __init__(self, spec: ServedSpec) -> None:  # type: ignore[misc]
        """Load the model; raises ``JudgeError`` if it cannot."""
        from scenewright.runs.model_factory.profiles import judge_of

        judge = judge_of(spec.model)
        await judge.load()  # type: ignore[attr-defined]
        together = getattr(judge, "answer_many", None)
        batched: Batched | None = None
        if spec.batch > 1 and together is not None:

            async def answer_pictures(asked: list[Any]) -> list[list[Answer]]:
                found: list[list[Answer]] = await together(asked)
                return found

            batched = _serve().batch(
                answer_pictures, max_batch_size=spec.batch, batch_wait_timeout_s=spec.batch_wait
            )
        LocalJudgeEndpoint.__init__(self, judge, spec.model, batched)


class BackendReplica(LocalBackendEndpoint):
    """A replica of a backend: one pipeline, which draws one picture after the other."""

    async def __init__(self, spec: ServedSpec) -> None:  # type: ignore[misc]
        """Load the model; raises ``BackendError`` if it cannot."""
        from scenewright.runs.model_factory.profiles import backend_of

        backend = backend_of(spec.what_draws)
        await backend.load()  # type: ignore[attr-defined]
        LocalBackendEndpoint.__init__(self, backend, spec.model)


class ReplicaEndpoint:
    """Endpoint over the replicas of a deployment.

    Implements :class:`~scenewright.service.model_serving.models.ModelEndpoint`.
    """

    def __init__(self, handle: Any) -> None:
        """``handle``: a ``DeploymentHandle``."""
        self._handle = handle
        self._drawing = handle.options(stream=True)
        self._card: ModelCard | None = None
        self._until = 0.0

    async def card(self) -> ModelCard:
        """Return the replicas' card, read again from time to time: weights may be replaced."""
        if self._card is None or time.monotonic() >= self._until:
            found: ModelCard = await self._handle.card.remote()
            self._card, self._until = found, time.monotonic() + CARD_SECONDS
        return self._card

    async def answer(
        self, image: bytes, facts: Sequence[Fact], fingerprint: str
    ) -> AnswerReply | Problem:
        """Return the answers of one of the replicas."""
        try:
            found: AnswerReply | Problem = await self._handle.answer.remote(
                image, tuple(facts), fingerprint
            )
        except Exception as error:
            return problem_of(error)
        if isinstance(found, Problem):
            self._until = 0.0
        return found

    async def generate(
        self, request: GenerationRequest, images: Mapping[str, bytes], fingerprint: str
    ) -> AsyncIterator[StreamItem]:
        """Return the drawing of one of the replicas; closed early, it is stopped there."""
        lines = self._drawing.generate.remote(request, dict(images), fingerprint)
        ended = False
        try:
            async for line in lines:
                if isinstance(line, ProblemLine):
                    self._until = 0.0
                yield line
            ended = True
        except Exception as error:
            ended = True
            yield ProblemLine(problem=problem_of(error))
        finally:
            if not ended:
                lines.cancel()


class Gateway:
    """Takes the HTTP requests."""

    def __init__(
        self, names: tuple[str, ...], most_bytes: int, key_variable: str, *handles: Any
    ) -> None:
        """``names``: ids of the models behind ``handles``."""
        self._doors = {
            name: ReplicaEndpoint(handle) for name, handle in zip(names, handles, strict=True)
        }
        self._most_bytes = most_bytes
        self._key = os.environ.get(key_variable, "") if key_variable else ""

    def __serve_build_asgi_app__(self) -> Any:
        """Return the ASGI application for Ray Serve."""
        from ray.exceptions import TaskCancelledError

        from scenewright.service.model_serving.gateway import gateway

        app = gateway(self._doors, self._key, self._most_bytes)

        async def quiet(scope: Any, receive: Any, send: Any) -> None:
            # This is how Ray Serve says that the client has gone.
            with suppress(TaskCancelledError):
                await app(scope, receive, send)

        return quiet


def build(args: Mapping[str, Any] | ServingArgs) -> Any:
    """Return the Ray Serve application that ``args`` (:class:`~.args.ServingArgs`) ask for.

    Raises ``SettingsError`` for arguments that are wrong, and without the extra ``ray``.
    """
    serve = _serve()
    asked = args if isinstance(args, ServingArgs) else serving_args(args)
    specs = specs_of(asked)
    names = deployment_names(specs)
    handles = [
        serve.deployment(JudgeReplica if spec.is_judge else BackendReplica)
        .options(name=names[spec.model], **deployment_options(spec))
        .bind(spec)
        for spec in specs
    ]
    door = serve.deployment(serve.ingress()(Gateway)).options(
        name=GATEWAY,
        num_replicas=asked.gateways,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=4096,
        graceful_shutdown_timeout_s=_DRAIN_SECONDS,
    )
    most = int(asked.most_megabytes * 2**20)
    return door.bind(tuple(s.model for s in specs), most, asked.key_variable, *handles)


def deployment_names(specs: Sequence[ServedSpec]) -> dict[str, str]:
    """Return the deployment name of each model: its id as far as Ray's names allow."""
    found: dict[str, str] = {}
    for spec in specs:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", spec.model)
        name, number = plain, 1
        while name in found.values() or name == GATEWAY:
            number += 1
            name = f"{plain}-{number}"
        found[spec.model] = name
    return found


def deployment_options(spec: ServedSpec) -> dict[str, Any]:
    """Ray Serve's options for the replicas of a model."""
    # Of a batch at work the next one fills meanwhile; a pipeline has the next request at hand.
    ongoing = 2 * spec.batch if spec.is_judge else 2
    options: dict[str, Any] = {
        "ray_actor_options": {"num_cpus": spec.cpus, "num_gpus": spec.gpus},
        "max_ongoing_requests": ongoing,
        "max_queued_requests": spec.waiting,
        "graceful_shutdown_timeout_s": _DRAIN_SECONDS,
        "max_constructor_retry_count": _CONSTRUCTIONS,
    }
    if spec.max_replicas is None:
        return options | {"num_replicas": spec.replicas}
    target = spec.ongoing or (max(1.0, spec.batch / 2) if spec.is_judge else 1.0)
    return options | {
        "autoscaling_config": {
            "min_replicas": spec.replicas,
            "max_replicas": spec.max_replicas,
            "target_ongoing_requests": target,
        }
    }


def problem_of(error: BaseException) -> Problem:
    """Return the client's problem for an error between a gateway and a replica."""
    from ray.exceptions import RayActorError, TaskCancelledError
    from ray.serve.exceptions import (
        BackPressureError,
        DeploymentUnavailableError,
        ReplicaUnavailableError,
    )

    match error:
        case BackPressureError():
            detail = "all replicas are busy and too many requests wait: try again later"
            return Problem(title="Overloaded", status=429, detail=detail, retry_after=_COME_BACK)
        case RayActorError() | DeploymentUnavailableError() | ReplicaUnavailableError():
            detail = "the replica that had the request ended: ask again"
        case TaskCancelledError():
            detail = "the request was cancelled on its way: ask again"
        case _:
            return failed(error)
    return Problem(title="No replica", status=503, detail=detail, retry_after=_COME_BACK)


def _serve() -> Any:
    try:
        from ray import serve
    except ImportError as error:
        raise SettingsError(
            "serving models needs the extra `ray`: pip install 'scenewright[ray]'"
        ) from error
    return serve
