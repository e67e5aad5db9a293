"""ComfyUI's nodes: loaded as ComfyUI loads them, and run against a live service."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch

from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.integrations.comfy_host import Host, Interrupted, hosted, prompt_of
from tests.service.serving import serving

ROOT = Path(__file__).resolve().parent.parent.parent
PACK = ROOT / "integrations" / "comfyui"
NAMES = {
    "ScenewrightRefine": "Refine Scene",
    "ScenewrightScore": "Score Image",
    "ScenewrightScene": "Scene Graph",
}
HELD = 77
UNREAD = "A red ball lies furtively. Ein Hund mit dem Ball."
"""A seed with which the judges wait until the test lets them go."""


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCENEWRIGHT_URL", "SCENEWRIGHT_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=[False, True], ids=["V1", "V3"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """ComfyUI with the pack loaded, by its older interface and by its newer one."""
    with hosted(v3=request.param) as host:
        assert host.load(PACK)
        yield host


@pytest.fixture
def newer() -> Iterator[Host]:
    """The same by the newer interface only, for what the nodes share."""
    with hosted(v3=True) as host:
        assert host.load(PACK)
        yield host


@pytest.fixture
def held() -> asyncio.Event:
    """Lets the judges of a run with seed ``HELD`` go."""
    return asyncio.Event()


@pytest.fixture
async def url(tmp_path: Path, held: asyncio.Event) -> AsyncIterator[str]:
    """A service whose second picture is better than the first."""

    async def hold(judge: ScriptedJudge, facts: Any, answers: Any) -> Any:
        await held.wait()
        return answers

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        behave = hold if request.seed == HELD else None
        return {
            "backend": ScriptedBackend(lambda asked: 40 + 60 * bool(asked.references)),
            "judges": [ScriptedJudge("a", behave=behave)],
            "report_judges": [ScriptedJudge("b")],
            "composer": ScriptedComposer(),
        }

    app = create_app(ServiceSettings(data=tmp_path / "data"), models=models)
    async with serving(app) as url:
        yield url


async def execute(host: Host, name: str, **inputs: Any) -> list[Any]:
    """The outputs of a node that is run once, each with one item, in a thread as ComfyUI does."""
    given = {name: [value] for name, value in inputs.items()}
    outputs = await asyncio.to_thread(host.execute, name, given)
    return [output[0] for output in outputs]


async def until(seen: Callable[[], bool]) -> None:
    """Look until it is so; the caller limits the time."""
    while not seen():  # noqa: ASYNC110 - it happens in a thread that knows of no events
        await asyncio.sleep(0.02)


async def standing(client: httpx2.AsyncClient, status: str) -> str:
    """The newest run's id once it stands so."""
    while True:
        runs = (await client.get("/v1/refinements")).json()["items"]
        if runs and runs[0]["status"] == status:
            return str(runs[0]["id"])
        await asyncio.sleep(0.02)


def test_the_pack_is_loaded_with_all_its_nodes(host: Host) -> None:
    assert {name: host.titles[name] for name in NAMES} == NAMES
    for name in NAMES:
        types_of = host.nodes[name].INPUT_TYPES()
        assert set(types_of) == {"required", "optional"}
        for kind, options in {**types_of["required"], **types_of["optional"]}.values():
            assert isinstance(kind, list) or kind in ("STRING", "INT", "IMAGE", "COMBO")
            assert options["tooltip"]


def test_both_interfaces_declare_the_same() -> None:
    declared = []
    for v3 in (False, True):
        with hosted(v3=v3) as host:
            assert host.load(PACK)
            found = {}
            for name in NAMES:
                node, inputs = host.nodes[name], {}
                for group, ports in node.INPUT_TYPES().items():
                    for id, (kind, options) in ports.items():
                        if isinstance(kind, list):
                            kind, options = "COMBO", {"options": kind, **options}
                        inputs[id] = (group, kind, options)
                found[name] = (inputs, list(node.RETURN_TYPES), list(node.OUTPUT_IS_LIST))
            declared.append(found)
    assert declared[0] == declared[1]


def test_nothing_of_the_package_and_no_model_library_is_imported() -> None:
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('pack', "
        f"{str(PACK / '__init__.py')!r}); module = importlib.util.module_from_spec(spec); "
        "sys.modules['pack'] = module; spec.loader.exec_module(module); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "pack.work" in loaded
    assert not {name for name in loaded if name.partition(".")[0] in ("scenewright", "torch")}


def test_the_registry_can_take_the_pack() -> None:
    found = tomllib.loads((PACK / "pyproject.toml").read_text(encoding="utf-8"))
    name = found["project"]["name"]
    assert re.fullmatch(r"[A-Za-z](?:[A-Za-z0-9]|[-_.](?=[A-Za-z0-9]))*", name)
    assert "comfyui" not in name.lower()
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["project"]["version"])
    assert (PACK / found["project"]["license"]["file"]).is_file()
    assert (PACK / found["project"]["readme"]).is_file()
    assert found["project"]["urls"]["Repository"]
    assert {"PublisherId", "DisplayName", "Icon"} <= set(found["tool"]["comfy"])


async def test_the_example_workflow_runs(host: Host, url: str) -> None:
    (path,) = PACK.glob("example_workflows/*.json")
    workflow = json.loads(path.read_text(encoding="utf-8"))
    for id, source, slot, target, into, _ in workflow["links"]:
        nodes = {node["id"]: node for node in workflow["nodes"]}
        assert id in nodes[source]["outputs"][slot]["links"]
        assert nodes[target]["inputs"][into]["link"] == id
    prompt = prompt_of(workflow, host.nodes)
    assert host.check(prompt) == []
    for node in prompt.values():
        if "server" in node["inputs"]:
            node["inputs"]["server"] = url
    outputs = await asyncio.to_thread(host.run, prompt)
    (image,), (score,), _, (missing,), (page,), (warnings,) = outputs["2"]
    assert image.shape == (1, 16, 16, 3)
    names = {item["name"] for item in json.loads(outputs["1"][0][0])["objects"]}
    assert names == {"ball", "table", "dog"}
    assert 0 <= score <= 1
    assert missing == "" or json.loads(missing)["objects"]
    assert page.startswith(f"{url}/runs/run_")
    assert warnings == ""


async def test_a_scene_is_refined_with_its_progress(host: Host, url: str) -> None:
    image, score, report, missing, page, _ = await execute(
        host, "ScenewrightRefine", scene="A red ball lies on a table.", rounds=2, seed=5, server=url
    )
    assert image.dtype == torch.float32
    assert image.shape == (1, 16, 16, 3)
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        run = (await client.get(f"/v1/refinements/{page.rpartition('/')[2]}")).json()
    assert run["status"] == "finished"
    assert run["request"]["seed"] == 5
    assert score == run["summary"]["report_score"]
    # The quality of a scripted picture is the red of its first pixel.
    drawn = {round["round"]: 40 + 60 * bool(round["reference"]) for round in run["rounds"]}
    assert round(float(image[0, 0, 0, 0]) * 255) == drawn[run["best_round"]]
    told = json.loads(report)
    assert [entry["round"] for entry in told["rounds"]] == [r["round"] for r in run["rounds"]]
    assert {verdict["fact_id"] for verdict in told["verdicts"]} <= {f["id"] for f in told["facts"]}
    best = next(r for r in run["rounds"] if r["round"] == run["best_round"])
    assert (json.loads(missing) if missing else None) == best["missing"]

    values = [value for value, _, _ in host.progress]
    assert values == sorted(values)
    assert values[-1] == 100 * len(run["rounds"])
    assert {total for _, total, _ in host.progress} == {200}
    previews = [preview for _, _, preview in host.progress if preview is not None]
    assert [shown.size for _, shown, _ in previews] == [(16, 16)] * len(run["rounds"])


async def test_an_interruption_cancels_the_run(host: Host, url: str) -> None:
    working = asyncio.create_task(
        execute(host, "ScenewrightRefine", scene="dog", seed=HELD, server=url, rounds=2)
    )
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(60):
        run = await standing(client, "running")
        await until(lambda: bool(host.progress))
        host.interrupted = True
        with pytest.raises(Interrupted):
            await working
        assert await standing(client, "cancelled") == run


async def test_a_run_that_takes_too_long_is_cancelled(newer: Host, url: str) -> None:
    with pytest.raises(RuntimeError, match="longer timeout"):
        await execute(newer, "ScenewrightRefine", scene="dog", seed=HELD, server=url, timeout=1)
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(60):
        await standing(client, "cancelled")


async def test_a_paused_run_is_waited_for(newer: Host, url: str, held: asyncio.Event) -> None:
    working = asyncio.create_task(
        execute(
            newer, "ScenewrightRefine", scene="A red ball and a blue dog", seed=HELD, server=url
        )
    )
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client, asyncio.timeout(60):
        await standing(client, "running")
        await until(lambda: bool(newer.progress))
        run = await standing(client, "running")
        assert (await client.post(f"/v1/refinements/{run}/pause")).status_code == 202
        held.set()
        await standing(client, "paused")
        assert not working.done()
        await client.post(f"/v1/refinements/{run}/resume")
        image, *_ = await working
    assert image.shape == (1, 16, 16, 3)


async def test_every_picture_is_scored_for_itself(host: Host, url: str) -> None:
    good = torch.full((16, 16, 3), 1.0)
    bad = torch.zeros((16, 16, 3))
    # Something is drawn on both.
    good[-1, -1], bad[-1, -1] = 0.0, 1.0
    scores, reports, missing, warnings = await asyncio.to_thread(
        host.execute,
        "ScenewrightScore",
        {"image": [torch.stack([good, bad])], "scene": [UNREAD], "server": [url]},
    )
    assert scores == [1.0, 0.0]
    assert [json.loads(report)["sgscore"] for report in reports] == scores
    assert "Ein Hund mit dem Ball" in warnings[0]
    assert len(warnings) == 1
    assert missing[0] == ""
    assert {item["name"] for item in json.loads(missing[1])["objects"]} == {"ball"}


@pytest.mark.parametrize(
    ("scene", "written_as"),
    [
        ("A red ball is on a table.", "auto"),
        ("red ball on table", "triplets"),
        (
            json.dumps(
                {
                    "objects": [
                        {"id": "b", "name": "ball", "attributes": {"color": "red"}},
                        {"id": "t", "name": "table"},
                    ],
                    "relations": [{"source": "b", "predicate": "on", "target": "t"}],
                }
            ),
            "auto",
        ),
    ],
    ids=["sentence", "triplets", "graph"],
)
async def test_a_scene_is_read_and_added_to(
    newer: Host, url: str, scene: str, written_as: str
) -> None:
    graph, triplets, questions, facts, warnings = await execute(
        newer,
        "ScenewrightScene",
        scene=scene,
        written_as=written_as,
        add="hat on dog; dog left of table",
        server=url,
    )
    read = json.loads(graph)
    assert sorted(item["name"] for item in read["objects"]) == ["ball", "dog", "hat", "table"]
    assert sorted(r["predicate"] for r in read["relations"]) == ["left of", "on", "on"]
    ball = next(item for item in read["objects"] if item["name"] == "ball")
    assert ball["attributes"] == {"color": "red"}
    assert "hat on dog" in triplets
    assert facts == len(questions.splitlines()) == 8
    assert warnings == ""


async def test_words_that_were_not_read_are_told(newer: Host, url: str) -> None:
    read = await execute(newer, "ScenewrightScene", scene=UNREAD, add="hat on ball", server=url)
    drawn = await execute(newer, "ScenewrightRefine", scene=UNREAD, rounds=1, server=url)
    for warnings in (read[-1], drawn[-1], *json.loads(drawn[2])["warnings"]):
        assert "furtively" in warnings
        assert len(warnings.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "inputs", "told"),
    [
        ("ScenewrightScene", {"scene": "  "}, "empty"),
        ("ScenewrightScene", {"scene": "{not json"}, "JSON"),
        ("ScenewrightScene", {"scene": "ball on", "written_as": "triplets"}, "triplets"),
        ("ScenewrightRefine", {"scene": "dog", "profile": "none such"}, "no profile"),
        ("ScenewrightRefine", {"scene": "dog", "server": "file:///etc/passwd"}, "http://HOST"),
        ("ScenewrightRefine", {"scene": "dog", "server": "http://u:p@host"}, "http://HOST"),
        ("ScenewrightScene", {"scene": "dog", "server": "http://127.0.0.1:9"}, "serve"),
    ],
)
async def test_what_is_wrong_is_told_with_its_remedy(
    newer: Host, url: str, name: str, inputs: dict[str, Any], told: str
) -> None:
    with pytest.raises(RuntimeError, match=told):
        await execute(newer, name, **{"server": url, **inputs})


@pytest.fixture
async def heard() -> AsyncIterator[tuple[str, list[str | None]]]:
    """A server that notes the keys that it is sent, and sends ``/away`` elsewhere; its address."""
    keys: list[str | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found = re.search(r"^authorization: (.*)\r$", head, re.IGNORECASE | re.MULTILINE)
        keys.append(found.group(1) if found else None)
        away = " /away/" in head.splitlines()[0]
        reply = "307 Elsewhere\r\nLocation: /taken" if away else "401 No"
        writer.write(f"HTTP/1.1 {reply}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", keys


async def test_the_key_of_the_environment_goes_along(
    newer: Host, heard: tuple[str, list[str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = heard
    monkeypatch.setenv("SCENEWRIGHT_API_KEY", "sw_one_secret")
    monkeypatch.setenv("SCENEWRIGHT_URL", f"{url}/")
    with pytest.raises(RuntimeError, match="SCENEWRIGHT_API_KEY"):
        await execute(newer, "ScenewrightScene", scene="dog")
    assert keys == ["Bearer sw_one_secret"]


async def test_a_redirect_is_not_followed(
    newer: Host, heard: tuple[str, list[str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = heard
    monkeypatch.setenv("SCENEWRIGHT_API_KEY", "sw_one_secret")
    with pytest.raises(RuntimeError, match="not followed"):
        await execute(newer, "ScenewrightScene", scene="dog", server=f"{url}/away")
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("named", "url", "sent"),
    [
        ("", "http://127.0.0.1:8642", True),
        ("", "http://localhost:1", True),
        ("", "http://[::1]:1", True),
        ("", "https://elsewhere.example", False),
        ("https://mine.example", "https://mine.example", True),
        ("https://mine.example/", "https://mine.example", True),
        ("https://mine.example", "http://mine.example", False),
        ("https://mine.example", "https://mine.example:444", False),
        ("https://mine.example", "https://mine.example.evil.example", False),
        ("https://mine.example", "https://127.0.0.1.evil.example", False),
    ],
)
def test_a_workflow_cannot_send_the_key_elsewhere(
    newer: Host, monkeypatch: pytest.MonkeyPatch, named: str, url: str, sent: bool
) -> None:
    monkeypatch.setenv("SCENEWRIGHT_API_KEY", "sw_one_secret")
    if named:
        monkeypatch.setenv("SCENEWRIGHT_URL", named)
    client = sys.modules[f"{str(PACK).replace('.', '_x_')}.client"].Client(url, 1, lambda: None)
    assert ("Authorization" in client._headers) is sent


def test_the_workflow_holds_no_key() -> None:
    for path in PACK.rglob("*.json"):
        assert "key" not in path.read_text(encoding="utf-8").lower()
