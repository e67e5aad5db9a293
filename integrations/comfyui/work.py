"""What the nodes do."""

from __future__ import annotations

import json
import uuid
from typing import Any

from .client import Client, ServiceError
from .host import Progress, check_interrupted
from .pictures import opened, pngs_of, tensor_of

WAYS = ("auto", "sentence", "triplets", "graph")
"""How a scene may be written; ``auto``: a graph if it begins with a brace, else a sentence."""
UNSCORED = -1.0
"""The score where no judge could answer."""
_ROUND = 100
_PAUSED_SECONDS = 1.0


def refine(
    scene: str,
    written_as: str = "auto",
    profile: str = "",
    strategy: str = "",
    rounds: int = 3,
    seed: int = 0,
    timeout: int = 1800,
    server: str = "",
) -> tuple[Any, float, str, str, str, str]:
    """Draw a scene until the judges find all of it.

    Gives (IMAGE, score, report as JSON, missing graph as JSON or nothing, address of the run's
    page, warnings). Whatever ends the wait cancels the run.
    """
    client = Client(server, timeout, check_interrupted)
    body = {**_scene(scene, written_as), "rounds": rounds, "seed": seed}
    if profile.strip():
        body["profile"] = profile.strip()
    if strategy.strip():
        body["strategy"] = strategy.strip()
    run = client.post("/v1/refinements", body, idempotency_key=uuid.uuid4().hex)
    path = f"/v1/refinements/{run['id']}"
    try:
        run = _followed(client, path, run, Progress(rounds * _ROUND))
        page = client.url + run["links"]["page"]
        if run["status"] != "finished":
            why = run["error"] or "somebody cancelled it"
            raise ServiceError(f"the run is {run['status']}: {why}. See {page}")
        image = tensor_of(client.read(run["image"]["url"]))
    except BaseException:
        client.cancel(f"{path}/cancel")
        raise
    best = next(r for r in run["rounds"] if r["round"] == run["best_round"])
    missing = json.dumps(best["missing"]) if best["missing"] else ""
    report = json.dumps(_report(run), indent=1)
    return image, _score(run["summary"]), report, missing, page, _warnings(run)


def score(
    image: Any,
    scene: str,
    written_as: str = "auto",
    profile: str = "",
    timeout: int = 600,
    server: str = "",
) -> tuple[list[float], list[str], list[str], str]:
    """Ask the judges every fact of a scene about each picture of ``image``.

    Gives, of each picture: the score, the report as JSON, the missing graph as JSON or nothing;
    and the warnings of all.
    """
    client = Client(server, timeout, check_interrupted)
    fields = {
        k: v if isinstance(v, str) else json.dumps(v) for k, v in _scene(scene, written_as).items()
    }
    if profile.strip():
        fields["profile"] = profile.strip()
    files = pngs_of(image)
    progress = Progress(len(files))
    scores, reports, missing, replies = [], [], [], []
    for at, png in enumerate(files):
        said = client.upload("/v1/scores", fields, "image", png)
        replies.append(said)
        scores.append(UNSCORED if said["sgscore"] is None else float(said["sgscore"]))
        reports.append(
            json.dumps(
                {k: said[k] for k in ("sgscore", "facts", "loop", "report", "usd", "warnings")}
            )
        )
        missing.append(json.dumps(said["missing"]) if said["missing"] else "")
        progress.tell(at + 1)
    return scores, reports, missing, _warnings(*replies)


def graph(
    scene: str,
    written_as: str = "auto",
    add: str = "",
    profile: str = "",
    timeout: int = 120,
    server: str = "",
) -> tuple[str, str, str, int, str]:
    """Read a scene, and add facts to it.

    Gives the graph as JSON, the triplets, what would be checked (a line a fact), how much that
    is, and the warnings.
    """
    client = Client(server, timeout, check_interrupted)
    body = _scene(scene, written_as)
    if profile.strip():
        body["profile"] = profile.strip()
    read = first = client.post("/v1/parse", body)
    if add.strip():
        read = client.post("/v1/parse", {"triplets": f"{read['triplets']}\n{add.strip()}"})
    facts = [str(fact["question"]) for fact in read["facts"]]
    warnings = _warnings(first, read)
    return json.dumps(read["scene"]), read["triplets"], "\n".join(facts), len(facts), warnings


def _warnings(*replies: dict[str, Any]) -> str:
    """Words of the scene that were not read, and what the models do not know: a line each."""
    return "\n".join(dict.fromkeys(said for reply in replies for said in reply["warnings"]))


def _scene(text: str, written_as: str) -> dict[str, Any]:
    """The scene as the service takes it."""
    if not text.strip():
        raise ServiceError("the scene is empty: write for example 'A red ball lies on a table.'")
    if written_as == "triplets":
        return {"triplets": text}
    if written_as == "graph" or (written_as == "auto" and text.lstrip().startswith("{")):
        try:
            return {"scene": json.loads(text)}
        except ValueError as error:
            raise ServiceError(
                f"the scene is no JSON ({error}): link a Scene Graph node, or write a sentence"
            ) from error
    return {"text": text}


def _followed(client: Client, path: str, run: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The run once it is over. One that somebody has paused on its page is waited for."""
    heard = -1
    while run["status"] in ("queued", "running", "paused"):
        if run["status"] == "paused":
            client.wait(_PAUSED_SECONDS)
        else:
            for number, kind, data in client.events(f"{path}/events", heard):
                heard = heard if number is None else number
                _tell(client, path, progress, kind, json.loads(data))
            client.wait(0.05)
        run = client.get(path)
    return run


def _tell(client: Client, path: str, progress: Progress, kind: str, event: dict[str, Any]) -> None:
    begin = event.get("round", 0) * _ROUND
    if kind == "step":
        done = event["step"] / max(1, event["of"])
        progress.tell(begin + (30 * done if event["purpose"] == "reference" else 30 + 40 * done))
    elif kind == "generated" and event["purpose"] == "candidate":
        small = client.read(f"{path}/images/{event['image']}/preview")
        progress.tell(begin + 70, opened(small))
    elif kind == "judged" and event["role"] == "loop":
        progress.tell(begin + _ROUND)


def _score(summary: dict[str, Any]) -> float:
    """By judges that the loop never saw, else by the loop's own."""
    for name in ("report_score", "loop_score"):
        if summary[name] is not None:
            return float(summary[name])
    return UNSCORED


def _report(run: dict[str, Any]) -> dict[str, Any]:
    summary = run["summary"]
    return {
        "run": run["id"],
        **{
            k: summary[k] for k in ("stop_reason", "satisfied", "loop_score", "report_score", "usd")
        },
        "best_round": run["best_round"],
        "rounds": [
            {
                "round": r["round"],
                "does": r["does"],
                "loop": _found(r["loop_card"]),
                "report": _found(r["report_card"]),
            }
            for r in run["rounds"]
        ],
        "facts": run["facts"],
        "verdicts": next(
            ((r["report_card"] or r["loop_card"] or {}).get("verdicts", []))
            for r in run["rounds"]
            if r["round"] == run["best_round"]
        ),
        "totals": run["totals"],
        "warnings": run["warnings"],
    }


def _found(card: dict[str, Any] | None) -> dict[str, Any] | None:
    """How many objects, attributes and relations were found, not found, or not scored."""
    if card is None:
        return None
    return {kind: card[kind] for kind in ("objects", "attributes", "relations")}
