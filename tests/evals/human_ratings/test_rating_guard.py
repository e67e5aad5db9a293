"""Who the rating server answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.evals.human_ratings.app import BODY_BYTES, serving, token_for
from scenewright.evals.human_ratings.study import RatingError, StudyFolder
from scenewright.evals.human_ratings.table import ratings_of
from tests.evals.human_ratings.rated import evaluation, study_in
from tests.evals.human_ratings.rating_client import begin, client, pictures, press

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return study_in(tmp_path / "s", evaluation(tmp_path / "e", 2), kind="choice")


@pytest.mark.parametrize("host", ["rate.example", "127.0.0.1.example", "10.0.0.1", "a@127.0.0.1"])
async def test_only_a_loopback_name_is_answered(folder: StudyFolder, host: str) -> None:
    async with client(folder) as browser:
        reply = await browser.get("/", headers={"host": host})
        assert reply.status_code == 403
        for own in ("localhost:8650", "[::1]:8650", "127.0.0.1"):
            assert (await browser.get("/", headers={"host": own})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_page_of_another_site_sends_nothing(
    folder: StudyFolder, headers: dict[str, str]
) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        reply = await browser.post(str(page.url), data={"value": "1"}, headers=headers)
        assert reply.status_code == 403
        assert ratings_of(folder) == ()
        own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
        reply = await browser.post(str(page.url), data={"value": "1"}, headers=own)
        assert reply.status_code == 200
    assert len(ratings_of(folder)) == 1


async def test_a_page_of_another_site_loads_no_picture(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        address = pictures(await begin(browser))[0]
        foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        assert (await browser.get(address, headers=foreign)).status_code == 403
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert (await browser.get("/", headers=link)).status_code == 200


async def test_every_reply_has_its_headers(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "<script>" not in page.text
        assert "style=" not in page.text
        assert page.headers["cache-control"] == "no-store"
        shown = await browser.get(pictures(page)[0])
        assert shown.headers["cache-control"].startswith("private")
        for reply in (page, shown, await browser.get("/nowhere"), await browser.get("/healthz")):
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
            assert "access-control-allow-origin" not in reply.headers


async def test_large_and_strange_bodies_are_refused(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        place = str(page.url)
        form = {"content-type": "application/x-www-form-urlencoded"}
        many = b"value=1&x=" + b"a" * BODY_BYTES
        assert (await browser.post(place, content=many, headers=form)).status_code == 413
        assert (await browser.post(place, json={"value": "1"})).status_code == 415
        fields = b"&".join(b"v=1" for _ in range(100))
        assert (await browser.post(place, content=fields, headers=form)).status_code == 422
        assert (await browser.put(place, data={"value": "1"})).status_code == 405
    assert ratings_of(folder) == ()


async def test_with_a_token_the_address_lets_in_once_and_then_the_cookie(
    folder: StudyFolder,
) -> None:
    async with client(folder, TOKEN, base="http://rate.example:8650") as browser:
        for address in ("/", "/?token=wrong", "/static/rate.js", "/healthz", "/r/x/1"):
            assert (await browser.get(address)).status_code == 401, address
        assert (await browser.post("/begin", data={"rater": "Ann"})).status_code == 401
        page = await browser.get("/", params={"token": TOKEN, "rater": "Ann"})
        assert TOKEN not in str(page.url)
        assert "Task 1 of 2" in page.text
        assert (await press(browser, page, "1")).status_code == 200
        foreign = {"origin": "http://evil.example"}
        reply = await browser.post(str(page.url), data={"value": "1"}, headers=foreign)
        assert reply.status_code == 403
    async with client(folder, TOKEN, base="http://rate.example:8650") as browser:
        reply = await browser.get("/", headers={"authorization": f"Bearer {TOKEN}"})
        assert reply.status_code == 200


def test_others_are_let_in_by_a_token_alone() -> None:
    assert token_for("127.0.0.1", None) is None
    assert token_for("::1", None) is None
    made = token_for("0.0.0.0", None)
    assert made is not None
    assert len(made) >= 24
    assert token_for("0.0.0.0", TOKEN) == TOKEN
    with pytest.raises(RatingError, match="can be guessed"):
        token_for("0.0.0.0", "short")
    with pytest.raises(RatingError, match="letters, digits"):
        token_for("0.0.0.0", "spaces are not for addresses")


async def test_a_server_for_others_gives_an_address_with_its_token(folder: StudyFolder) -> None:
    async with serving(folder, "0.0.0.0") as url:
        assert url.startswith("http://127.0.0.1:")
        assert "?token=" in url
