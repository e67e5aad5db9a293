"""The start page over HTTP: what it sends, what its form does, what it loads."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest

from scenewright.config.settings import Settings
from scenewright.core.formats.phrases import ADJECTIVES
from scenewright.service.api.scenes import profiles_here
from scenewright.service.app import create_app
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.web.rendering import assets
from tests.service.conftest import scripted, serving

SENTENCE = "A black cat is under a purple table."
HTML = {"Accept": "text/html,application/xhtml+xml"}


class Page(HTMLParser):
    """What the guard's Content-Security-Policy and a reader without scripts would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.links: list[str] = []
        self.fields: dict[str, str] = {}
        self.text: list[str] = []
        self._open: str | None = None
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.inline += [f"{tag} {name}" for name in values if name.startswith("on")]
        if tag == "script" and "src" not in values:
            self.inline.append("script")
        self.links += [values[name] for name in ("src", "href", "action") if name in values]
        if tag == "input" and "name" in values:
            self.fields[values["name"]] = values.get("value", "")
        if tag == "textarea":
            self._within = values.get("name", "")
            self.fields[self._within] = ""
        if tag == "option" and "selected" in values:
            self.fields[self._open or ""] = values["value"]
        if tag == "select":
            self._open = values.get("name")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.fields[self._within] += data.lstrip("\n")
        self.text.append(data)


async def get(url: str, path: str) -> Page:
    async with httpx2.AsyncClient(base_url=url, headers=HTML, timeout=60) as client:
        reply = await client.get(path)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        return Page(reply.text)


@pytest.mark.parametrize("path", ["/", "/?text=A+red+ball", "/runs", "/runs?words=zebra"])
async def test_pages_have_nothing_inline_and_load_from_here_only(url: str, path: str) -> None:
    page = await get(url, path)
    assert page.inline == []
    assert all(link.startswith(("/", "#")) for link in page.links)
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for link in {link for link in page.links if link.startswith("/static/")}:
            assert (await client.get(link)).status_code == 200, link


async def test_the_security_policy_allows_what_the_page_needs(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        policy = (await client.get("/")).headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


async def test_what_is_in_the_address_is_shown_as_text(url: str) -> None:
    written = "</textarea><script>alert(1)</script> a red ball"
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        reply = await client.get("/", params={"text": written})
    assert "<script>alert" not in reply.text
    assert Page(reply.text).fields["text"] == written


async def test_the_form_works_without_scripts(url: str) -> None:
    page = await get(url, "/")
    form = page.fields | {"text": SENTENCE, "rounds": "2", "seed": "7", "images": "9"}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        reply = await client.post("/runs", data=form)
        assert reply.status_code == 303
        run = reply.headers["location"].removeprefix("/runs/")
        found = (await client.get(f"/v1/refinements/{run}")).json()
        assert found["door"] == "page"
        assert [item["name"] for item in found["scene"]["objects"]] == ["cat", "table"]
        asked = found["request"]
        assert (asked["rounds"], asked["seed"], asked["budget"]["images"]) == (2, 7, 9)
        assert asked["budget"]["usd"] is None

        again = await client.post("/runs", data=form)
        assert again.headers["location"] == reply.headers["location"]
        other = await client.post("/runs", data=form | {"seed": "8"})
        assert other.status_code == 303
        assert other.headers["location"] != reply.headers["location"]
        listed = (await client.get("/v1/refinements")).json()["items"]
    assert len(listed) == 2


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"text": ""}, "the sentence is empty: say what is to be seen"),
        ({"rounds": "many"}, "rounds is 'many': write a number"),
        ({"rounds": "1000"}, "rounds"),
        ({"usd": "-1"}, "budget.usd"),
        ({"usd": "nan"}, "budget.usd"),
        ({"profile": "no-such"}, "no-such"),
    ],
)
async def test_a_wrong_form_comes_back_with_the_remedy(
    url: str, changed: dict[str, str], told: str
) -> None:
    form = {"text": SENTENCE, "rounds": "2", "seed": "5", "key": "abc"} | changed
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        reply = await client.post("/runs", data=form)
        listed = (await client.get("/v1/refinements")).json()["items"]
    assert reply.status_code == 422
    assert listed == []
    page = Page(reply.text)
    assert told in "".join(page.text)
    assert page.fields["seed"] == "5"
    assert page.fields["text"].strip() == form["text"]
    assert page.fields["key"] == "abc"


async def test_another_site_cannot_send_the_form(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
            reply = await client.post("/runs", data={"text": SENTENCE}, headers=headers)
            assert reply.status_code == 403
        assert (
            await client.post("/runs", data={"text": SENTENCE}, headers={"Origin": url})
        ).is_redirect
        assert len((await client.get("/v1/refinements")).json()["items"]) == 1


async def test_a_file_in_the_form_is_no_text(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        reply = await client.post("/runs", files={"text": ("a.txt", b"A red ball")})
    assert reply.status_code == 422


async def test_a_new_scene_can_be_like_an_earlier_run(url: str) -> None:
    scene = {
        "objects": [{"id": "a.1", "name": "a", "attributes": {"color": "\"'><script>"}}],
        "relations": [],
    }
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        asked = {"scene": scene, "rounds": 4, "seed": 3, "budget": {"usd": 0.5}}
        run = (await client.post("/v1/refinements", json=asked)).json()["id"]
        reply = await client.get(f"/?like={run}")
        unknown = await client.get("/?like=run_0", headers=HTML)
    page = Page(reply.text)
    assert page.inline == []
    assert (page.fields["rounds"], page.fields["seed"], page.fields["usd"]) == ("4", "3", "0.5")
    found = re.search(r'data-scene="([^"]*)" data-detached="yes"', reply.text)
    assert found
    assert "<script>" not in found[1]
    assert unknown.status_code == 404
    assert "there is no run" in unknown.text.lower()


async def test_errors_are_pages_for_people_and_json_for_programs(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        person = await client.get("/nothing<b>here", headers=HTML)
        program = await client.get("/nothing", headers={"Accept": "application/json"})
        api = await client.get("/v1/refinements/run_0", headers=HTML)
    assert person.status_code == program.status_code == api.status_code == 404
    assert person.headers["content-type"].startswith("text/html")
    assert "<b>here" not in person.text
    main = person.text.partition("<main")[2]
    assert "There is no page at" in main
    assert "openapi" not in main
    assert 'href="/runs"' in main
    assert 'href="/"' in main
    assert "/openapi.json" in program.json()["detail"]
    assert program.headers["content-type"] == "application/problem+json"
    assert api.headers["content-type"] == "application/problem+json"


async def test_assets_are_asked_for_once(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for name, kind in (("start.js", "text/javascript"), ("style.css", "text/css")):
            first = await client.get(f"/static/{name}")
            assert first.headers["content-type"].startswith(kind)
            assert first.headers["cache-control"] == "no-cache"
            tag = first.headers["etag"]
            again = await client.get(f"/static/{name}", headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["nothing.css", "run.html.j2", "..%2Frendering.py", "%2e%2e%2frouter.py", "a%00.js"]
)
async def test_only_known_assets_are_given(url: str, name: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        assert (await client.get(f"/static/{name}")).status_code == 404


def test_scripts_load_scripts_that_are_there() -> None:
    for name, asset in assets().items():
        if name.endswith(".js"):
            for loaded in re.findall(r'from "\./([^"]+)"', asset.data.decode()):
                assert loaded in assets(), f"{name} loads {loaded}"


def test_the_editor_knows_words_as_the_package_does() -> None:
    text = assets()["graph-model.js"].data.decode()
    colors = re.search(r"COLORS = \{(.*?)\};", text, re.DOTALL)
    assert colors
    listed = {
        "color": re.findall(r"(\w+): \"#", colors[1]),
        **{
            key: re.findall(r'"(\w+)"', re.findall(rf"{name} = \[(.*?)\];", text, re.DOTALL)[0])
            for key, name in (("size", "SIZES"), ("material", "MATERIALS"))
        },
    }
    for key, words in listed.items():
        assert words
        assert [ADJECTIVES.get(word) for word in words] == [key] * len(words)


async def test_the_page_is_for_who_may_read_and_the_form_for_who_may_refine(
    tmp_path: Path,
) -> None:
    from scenewright.service.api.access import AuthMiddleware
    from scenewright.service.app import create_app
    from scenewright.service.core.identity import Identity

    app = create_app(ServiceSettings(data=tmp_path / "data"), models=scripted())
    state = {"scopes": ("read",)}

    async def as_somebody(scope, receive, send):  # type: ignore[no-untyped-def]
        if scope["type"] == "http":
            scope.setdefault("state", {})["identity"] = Identity("t", None, state["scopes"])
        await inner(scope, receive, send)

    async with serving(app) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        guarded = app.middleware_stack
        while guarded is not None and not isinstance(guarded, AuthMiddleware):
            guarded = getattr(guarded, "app", None)
        assert isinstance(guarded, AuthMiddleware)
        inner = guarded.app
        guarded.app = as_somebody
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/runs", data={"text": SENTENCE})).status_code == 403
        state["scopes"] = ()
        assert (await client.get("/")).status_code == 403
        assert (await client.get("/runs", headers=HTML)).status_code == 403


async def test_a_sentence_comes_back_with_its_run(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, headers=HTML, timeout=60) as client:
        made = await client.post("/v1/refinements", json={"text": SENTENCE, "seed": 4})
        drawn = await client.post("/v1/refinements", json={"triplets": "hat on dog"})
        page = (await client.get(f"/?like={made.json()['id']}")).text
        other = (await client.get(f"/?like={drawn.json()['id']}")).text
    fields = Page(page).fields
    assert (fields["text"], fields["seed"]) == (SENTENCE, "4")
    # The graph is what the sentence says, so it follows the sentence.
    assert 'data-detached=""' in page
    assert Page(other).fields["text"] == ""
    assert 'data-detached="yes"' in other


async def test_profiles_that_cannot_run_here_are_told_and_not_offered(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "any")
    async with (
        serving(create_app(settings)) as url,
        httpx2.AsyncClient(base_url=url, headers=HTML, timeout=60) as client,
    ):
        page = (await client.get("/")).text
        listed = (await client.get("/v1/profiles")).json()["profiles"]
        asked = (await client.get("/?text=a+dog")).text
        form = {"text": "", "profile": "openai"}
        given = (await client.post("/runs", data=form)).text
    offered = re.findall(r'<option value="([^"]+)" data-about="[^"]*" data-strategy', page)
    assert offered[:2] == ["miniature", "miniature-edit"]
    assert "openai" not in offered
    told = {one["name"]: one["obstacle"] for one in listed}
    assert told["miniature"] == ""
    needed = "needs a key for openai: set it with `scenewright keys set openai`"
    assert told["openai"] == f"{needed} or OPENAI_API_KEY"
    assert [name for name, obstacle in told.items() if not obstacle] == offered
    assert "set it with <code>scenewright keys set openai</code>" in page
    assert '<option value="miniature"' in asked
    # Who has asked for one by name sees it, and why it does not run.
    assert re.search(r'<option value="openai"[^>]* selected>openai \(cannot run here yet\)', given)


def test_where_workers_draw_elsewhere_every_profile_is_offered(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    shared = settings.model_copy(update={"database": "postgresql://user@host/name"})
    for given, told in ((shared, False), (settings, True)):
        service = SimpleNamespace(settings=given, base=Settings(), models=None)
        obstacles = profiles_here(cast(Service, service))[1]
        assert any(obstacles.values()) is told
