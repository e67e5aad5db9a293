"""The whole API asked at random, and scenes that nobody would draw: never an error of the server's
own, and never for long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator

from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.databases import KINDS, kept
from tests.service.serving import scripted
from tests.service.threaded import threaded

# The driver of PostgreSQL uses the random module in a thread while hypothesis draws.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
SLOW_SECONDS = 60.0
EXAMPLES = 6


def bounded(examples: int) -> settings:
    """So many examples, the same ones each time."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


@dataclass
class House:
    """A service with a finished run."""

    url: str
    client: httpx2.Client
    run: str
    image: str
    described: dict[str, Any]
    shared: bool
    """Whether its database is PostgreSQL."""

    def send(self, method: str, path: str, content: bytes, kind: str = "application/json") -> int:
        """The status of a request, which must be no error of the server's and come soon."""
        began = time.monotonic()
        reply = self.client.request(method, path, content=content, headers={"Content-Type": kind})
        assert reply.status_code < 500, (method, path, content[:500], reply.text)
        assert time.monotonic() - began < SLOW_SECONDS, (method, path, content[:500])
        return reply.status_code


@pytest.fixture(scope="module", params=KINDS)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    chosen = loop.run_until_complete(stack.enter_async_context(kept(request.param, folder)))
    chosen = ServiceSettings(**{**chosen.model_dump(), "queue": 5000, "drain_seconds": 1})
    try:
        app = create_app(chosen, models=scripted())
        # The server lets an idle connection go after five seconds: the client before that.
        limits = httpx2.Limits(keepalive_expiry=1.0)
        with (
            threaded(app) as url,
            httpx2.Client(base_url=url, timeout=60, limits=limits) as client,
        ):
            asked = {"triplets": "red ball on table", "rounds": 1}
            run = client.post("/v1/refinements", json=asked).json()["id"]
            client.get(f"/v1/refinements/{run}/events")
            done = client.get(f"/v1/refinements/{run}").json()
            assert done["status"] == "finished", done
            image = done["rounds"][0]["image"]["hash"]
            yield House(url, client, run, image, client.get("/openapi.json").json(), chosen.shared)
    finally:
        loop.run_until_complete(stack.aclose())
        loop.close()


def test_every_route_is_described_whole(house: House) -> None:
    assert house.described["components"]["securitySchemes"].keys() == {"bearer", "header", "cookie"}
    operations = [
        (method, path, operation)
        for path, methods in house.described["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(operations) >= 15
    names = [operation["operationId"] for *_, operation in operations]
    assert len(set(names)) == len(names)
    for method, path, operation in operations:
        place = f"{method} {path}"
        assert operation["summary"], place
        assert operation["description"], place
        assert operation["tags"], place
        for parameter in operation.get("parameters", ()):
            assert parameter["schema"], (place, parameter["name"])
        good = [status for status in operation["responses"] if status.startswith("2")]
        assert good, place
        for status in set(good) - {"204"}:
            content = operation["responses"][status]["content"]
            assert content, place
            for kind, told in content.items():
                # AUTOMATIC1111 answers some requests with null.
                typed = told.get("schema") or path.startswith("/sdapi/")
                assert kind.startswith("image/") or typed, (place, kind)
        failed = operation["responses"]["default"]
        assert failed["description"], place
        assert failed["content"], place


def test_replies_are_as_described(house: House) -> None:
    components = house.described["components"]
    for path, name in (
        (f"/v1/refinements/{house.run}", "Refinement"),
        ("/v1/refinements", "RefinementList"),
        ("/v1/profiles", "Choices"),
        ("/v1/refinements/unknown", "Problem"),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": components}
        Draft202012Validator(schema).validate(house.client.get(path).json())


def few(body: Any) -> Any:
    """A body whose run is short: how long runs take is not what is asked here."""
    if isinstance(body, dict):
        for name, most in (("rounds", 2), ("n", 2), ("patience", 2)):
            if isinstance(body.get(name), int) and body[name] > most:
                body[name] = most
        for name in ("width", "height", "size"):
            body.pop(name, None)
        few(body.get("scenewright"))
    return body


@pytest.mark.slow
def test_nothing_that_fits_the_description_breaks_it(house: House) -> None:
    if house.shared:
        pytest.skip("what depends on the database is asked below")
    schema = schemathesis.openapi.from_url(f"{house.url}/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        assert operation is not None
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @bounded(EXAMPLES)
            @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
            def ask(case: Any, real: bool) -> None:
                nonlocal tried
                few(case.body)
                # The real run is needed to the end.
                real = real and case.method.upper() != "DELETE"
                if real and "run_id" in (case.path_parameters or {}):
                    case.path_parameters["run_id"] = house.run
                    if "image" in case.path_parameters:
                        case.path_parameters["image"] = house.image
                began = time.monotonic()
                reply = case.call(timeout=60)
                assert reply.status_code < 500, (case.as_curl_command(), reply.text)
                assert time.monotonic() - began < SLOW_SECONDS, case.as_curl_command()
                tried += 1

            if mode is schemathesis.GenerationMode.POSITIVE:
                ask()
            else:
                # Of a route that takes nothing everything fits: there is nothing wrong to send.
                with contextlib.suppress(Unsatisfiable):
                    ask()
    assert tried > 200


NASTY = (
    "\x00", "a\x00b", "\ud800", "\udfff\ud800", "‮", "\u200d", "﷽" * 50, "🎨" * 60, "a" * 300,
    "-0", "null", "'; DROP TABLE runs; --", "<script>alert(1)</script>", "../../etc/passwd", "%s%n",
    "{{7*7}}", "\n", "\r\n", "\t", " ", "", "https://example.com/a.png", "file:///etc/passwd",
)  # fmt: skip
texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(codec=None), max_size=30),
    st.sampled_from(["red", "ball", "table", "on", "left of"]),
)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**30, -(10**30), 2**63, 2**63 - 1, 1e308, float("nan"), float("inf")]),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
names = st.sampled_from(["a", "b", "c"])
scenes = st.fixed_dictionaries(
    {
        "objects": st.lists(
            st.fixed_dictionaries(
                {"id": st.one_of(names, names, texts), "name": texts},
                optional={"attributes": st.dictionaries(texts, texts, max_size=3)},
            ),
            max_size=5,
        )
    },
    optional={
        "relations": st.lists(
            st.fixed_dictionaries({"source": names, "predicate": texts, "target": names}),
            max_size=4,
        )
    },
)
FORMS = st.sampled_from(["scene", "triplets", "text"])


def encoded(data: Any) -> bytes:
    """JSON with halves of characters escaped, NaN and all."""
    return json.dumps(data).encode()


def test_no_scene_breaks_it(house: House) -> None:
    @bounded(60)
    @given(st.one_of(scenes, anything), FORMS, st.booleans())
    def ask(scene: Any, form: str, begin: bool) -> None:
        body = {form: scene} | ({"rounds": 1} if begin else {})
        house.send("POST", "/v1/refinements" if begin else "/v1/parse", encoded(body))

    ask()


def test_no_text_breaks_the_readers(house: House) -> None:
    @bounded(60)
    @given(st.lists(texts, max_size=8), st.sampled_from([" ", "; ", ", ", ""]), FORMS)
    def ask(parts: list[str], between: str, form: str) -> None:
        house.send("POST", "/v1/parse", encoded({form: between.join(parts)}))

    ask()


def test_no_field_breaks_it(house: House) -> None:
    fields = list(house.described["components"]["schemas"]["RefinementRequest"]["properties"])

    @bounded(80)
    @given(st.dictionaries(st.one_of(st.sampled_from(fields), texts), anything, max_size=4))
    def ask(body: dict[str, Any]) -> None:
        whole = {"triplets": "red ball on table"} | body | {"rounds": 1}
        house.send("POST", "/v1/refinements", encoded(whole))

    ask()


@pytest.mark.slow
@pytest.mark.parametrize("field", ["idempotency_key", "profile", "negative_prompt", "strategy"])
def test_no_text_breaks_a_field(house: House, field: str) -> None:
    for number, text in enumerate(NASTY):
        body = {"triplets": "red ball on table", "rounds": 1, "seed": number, field: text}
        house.send("POST", "/v1/refinements", encoded(body))


def test_no_text_breaks_a_query(house: House) -> None:
    for text in (
        "%00",
        "a%00b",
        "%ed%a0%80",
        "%ff",
        "%25",
        "_",
        "'",
        "%F0%9F%8E%A8" * 40,
        "%5c",
        "99",
    ):
        for name in ("words", "before", "status", "limit", "after"):
            for path in ("/v1/refinements", f"/v1/refinements/{house.run}/events", "/runs"):
                house.send("GET", f"{path}?{name}={text}", b"")


def test_no_edit_breaks_it(house: House) -> None:
    fields = list(house.described["components"]["schemas"]["EditRequest"]["properties"])
    path = f"/v1/refinements/{house.run}/edits"

    @bounded(60)
    @given(
        st.dictionaries(
            st.one_of(st.sampled_from(fields), texts), st.one_of(scenes, anything), max_size=3
        )
    )
    def ask(body: dict[str, Any]) -> None:
        house.send("POST", path, encoded(body | {"rounds": 1}))

    ask()


def test_no_bytes_break_it(house: House) -> None:
    kinds = st.sampled_from(
        ["application/json", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain",
         "application/x-www-form-urlencoded", "application/json; charset=utf-16", "x", "image/png"]
    )  # fmt: skip
    paths = st.sampled_from(["/v1/refinements", "/v1/parse", "/v1/scores", "/login", "/runs"])

    @bounded(60)
    @given(paths, kinds, st.one_of(st.binary(max_size=300), st.text(max_size=100)))
    def ask(path: str, kind: str, body: bytes | str) -> None:
        data = body.encode() if isinstance(body, str) else body
        house.send("POST", path, b"--x\r\n" + data if kind.endswith("x") else data, kind)

    ask()


def test_what_is_deep_large_or_long_is_answered_soon(house: House) -> None:
    many = [{"id": f"o{n}", "name": "ball"} for n in range(MAX_OBJECTS + 1)]
    pairs = [
        {"source": f"o{n % 90}", "predicate": f"p{n}", "target": f"o{90 + n % 90}"}
        for n in range(MAX_RELATIONS + 1)
    ]
    for body in (
        b"[" * 100_000,
        b'{"scene":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"rounds": ' + b"9" * 100_000 + b', "text": "a ball"}',
        b'{"text": "' + b"a ball and " * 1_800 + b'"}',
        b'{"triplets": "' + b"a on b; " * 2_400 + b'"}',
        b'{"text": "' + b"(" * 19_000 + b'"}',
        b'{"text": "' + b"the " * 4_900 + b'"}',
        encoded({"scene": {"objects": many}}),
        encoded({"scene": {"objects": many[:180], "relations": pairs}}),
        encoded({"x" * 1_000_000: 1}),
        b"\xff\xfe" * 1000,
    ):
        for path in ("/v1/parse", "/v1/refinements"):
            assert house.send("POST", path, body) in (200, 202, 400, 422), body[:60]
