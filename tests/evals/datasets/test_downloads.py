"""Fetching public sets: resumed, checked, recorded, and refused with what to do."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from scenewright.cli.data import app
from scenewright.evals.datasets import base, downloads
from scenewright.evals.datasets import downloads as transfer
from scenewright.evals.datasets.base import DatasetError, Source, default_place
from scenewright.evals.datasets.downloads import Done, DownloadError, check_disk, download, plan_of
from scenewright.providers.hub.pull import PullCallbacks
from tests.evals.datasets.store import Store, serving

CONTENT = bytes(range(256)) * 4000
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    """A store with a file that the table vouches for (``a.bin``) and one that it does not."""
    monkeypatch.setattr(transfer, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("SCENEWRIGHT_DATA", str(tmp_path / "data"))
    with serving() as made:
        made.files = {"a.bin": CONTENT, "b.csv": b"x,y\n1,2\n" * 1000}
        publish(monkeypatch, made)
        yield made


def publish(monkeypatch: pytest.MonkeyPatch, store: Store, **more: Any) -> None:
    """Make the store's files the set ``made``; ``more`` are fields of ``a.bin``."""
    vouched = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "bytes": len(CONTENT)}
    files = [
        {"address": f"{store.url}/a.bin", "about": "vouched for"} | (more or vouched),
        {"address": f"{store.url}/b.csv", "about": "not vouched for", "name": "in/b.csv"},
        {"address": f"{store.url}/c.zip", "about": "packed", "extra": True, "unpack": True},
    ]
    source = Source.model_validate(
        {"about": "made up", "page": "http://x", "licence": "MIT", "files": files}
    )
    monkeypatch.setattr(base, "sources", lambda: {"made": source})


def got(only: tuple[str, ...] = (), watch: PullCallbacks | None = None) -> Done:
    return download(plan_of("made", None, only), watch)


def test_files_come_whole_and_are_checked(store: Store) -> None:
    seen: Counter[str] = Counter()
    plan = plan_of("made")
    assert plan.folder == default_place("made")
    assert plan.rest == len(CONTENT) + 8000
    done = download(plan, PullCallbacks(moved=lambda count: seen.update(moved=count)))
    assert done.fetched == ["a.bin", "in/b.csv"]
    assert done.first == ["in/b.csv"]
    assert seen["moved"] == plan.rest
    assert (plan.folder / "a.bin").read_bytes() == CONTENT
    assert (plan.folder / "in" / "b.csv").read_bytes() == store.files["b.csv"]
    record = json.loads((plan.folder / "checksums.json").read_text())["files"]
    assert record["a.bin"]["vouched"] == "table"
    assert record["in/b.csv"] == {
        "sha256": hashlib.sha256(store.files["b.csv"]).hexdigest(),
        "bytes": 8000,
        "address": f"{store.url}/b.csv",
        "vouched": "first download",
    }
    store.requests.clear()
    again = got()
    assert again == Done(checked=["a.bin", "in/b.csv"])
    assert not store.requests
    assert not list(plan.folder.rglob("*.incomplete*"))


@pytest.mark.parametrize("name", ["a.bin", "b.csv"])
def test_a_transfer_that_is_cut_off_goes_on_where_it_stopped(store: Store, name: str) -> None:
    size = len(store.files[name])
    store.cut[name] = [size // 3, size // 3]
    got()
    asked = store.ranges_of(name)
    assert asked[0] is None
    begins = [int(str(r).removeprefix("bytes=").removesuffix("-")) for r in asked[1:]]
    assert begins == sorted(begins)
    assert 0 < begins[0] <= size // 3
    assert all(begin > 0 for begin in begins)


def test_the_next_call_goes_on_too(store: Store, tmp_path: Path) -> None:
    half = len(CONTENT) // 2
    plan = plan_of("made")
    # After the cut the server has nothing more to say for a while.
    store.cut["a.bin"] = [half, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"transfer|RemoteProtocolError") as caught:
        download(plan)
    assert "of it are here and stay" in str(caught.value)
    assert str(plan.folder / "a.bin") in str(caught.value)
    partial = plan.folder / "a.bin.incomplete"
    had = partial.stat().st_size
    assert 0 < had <= half
    assert plan_of("made").files[0].here == had
    store.cut.clear()
    store.requests.clear()
    got()
    assert store.ranges_of("a.bin") == [f"bytes={had}-"]
    assert (plan.folder / "a.bin").read_bytes() == CONTENT


def test_a_version_that_changed_meanwhile_is_never_mixed(store: Store) -> None:
    folder = default_place("made") / "in"
    old = store.files["b.csv"]
    store.cut["b.csv"] = [4000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError):
        got()
    assert (folder / "b.csv.incomplete").stat().st_size > 0
    store.cut.clear()
    store.files["b.csv"] = old.replace(b"1", b"7")
    told: list[str] = []
    got(watch=PullCallbacks(message=told.append))
    assert (folder / "b.csv").read_bytes() == store.files["b.csv"]
    assert any("comes anew" in line for line in told)


@pytest.mark.parametrize("without", ["ranges", "versions", "lengths"])
def test_servers_that_know_less_are_served_as_well(store: Store, without: str) -> None:
    setattr(store, without, False)
    if without != "lengths":
        store.cut["b.csv"] = [3000]
    got()
    assert (default_place("made") / "in" / "b.csv").read_bytes() == store.files["b.csv"]


def test_a_wrong_digest_is_refused_and_kept_apart(store: Store) -> None:
    store.files["a.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(DownloadError, match=r"expected is .* What came is kept as .*a\.bin\.wrong"):
        got()
    folder = default_place("made")
    assert (folder / "a.bin.wrong").read_bytes() == store.files["a.bin"]
    assert not (folder / "a.bin").exists()
    store.files["a.bin"] = CONTENT
    store.requests.clear()
    got()
    assert store.ranges_of("a.bin") == [None]


def test_a_wrong_size_is_refused_before_anything_comes(store: Store) -> None:
    store.files["a.bin"] = CONTENT + b"!"
    with pytest.raises(DownloadError, match=r"has 1024001 bytes, 1024000 are expected"):
        got()
    assert not list(default_place("made").glob("a.bin*"))


def test_the_first_download_counts_afterwards(store: Store) -> None:
    got()
    place = default_place("made") / "in" / "b.csv"
    place.unlink()
    right = store.files["b.csv"]
    store.files["b.csv"] = right.replace(b"1", b"7")
    with pytest.raises(DownloadError, match="another file than the first time; if its makers say"):
        got()
    assert not place.exists()
    store.files["b.csv"] = right
    assert got().fetched == ["in/b.csv"]


def test_a_damaged_file_is_kept_apart_and_comes_again(store: Store) -> None:
    got()
    folder = default_place("made")
    (folder / "a.bin").write_bytes(b"damaged")
    (folder / "in" / "b.csv").write_bytes(b"damaged")
    told: list[str] = []
    done = got(watch=PullCallbacks(message=told.append))
    assert done.fetched == ["a.bin", "in/b.csv"]
    assert (folder / "a.bin.wrong").read_bytes() == b"damaged"
    assert "is not as it should be: it is kept as a.bin.wrong and comes again" in told[0]


def test_a_file_put_there_by_hand_is_checked(store: Store) -> None:
    folder = default_place("made")
    folder.mkdir(parents=True)
    (folder / "a.bin").write_bytes(CONTENT)
    assert got().checked == ["a.bin"]
    assert not store.ranges_of("a.bin")


def test_no_network_names_the_address_and_the_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.url = "http://127.0.0.1:9"
    publish(monkeypatch, store)
    plan = plan_of("made")
    assert plan.open_sizes == ("in/b.csv",)
    with pytest.raises(DownloadError) as caught:
        download(plan)
    said = str(caught.value)
    assert "http://127.0.0.1:9/a.bin cannot be fetched (ConnectError" in said
    assert f"put it here by hand, where it will be checked: {plan.folder / 'a.bin'}" in said


def test_what_servers_refuse_is_told(store: Store) -> None:
    store.status["a.bin"] = [503, 429]
    assert got().fetched == ["a.bin", "in/b.csv"]
    shutil.rmtree(default_place("made"))
    store.status["a.bin"] = [503] * 10
    with pytest.raises(DownloadError, match="the server answers 503"):
        got()
    store.status["a.bin"] = [403]
    with pytest.raises(DownloadError, match=r"answers 403: the file may have moved\. .* by hand"):
        got()
    store.status.clear()
    store.kind = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="a page came in place of the file"):
        got()


def test_a_beginning_that_is_longer_than_the_file_is_thrown_away(store: Store) -> None:
    folder = default_place("made")
    folder.mkdir(parents=True)
    (folder / "a.bin.incomplete").write_bytes(b"?" * (len(CONTENT) + 5))
    got()
    assert (folder / "a.bin").read_bytes() == CONTENT
    (folder / "a.bin").rename(folder / "a.bin.incomplete")
    store.requests.clear()
    got()
    assert store.ranges_of("a.bin") == [f"bytes={len(CONTENT)}-"]


def test_a_full_disk_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("made")
    usage = shutil.disk_usage("/")._replace(free=1000)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(DownloadError, match=r"only 1 kB free: free some space, .* --out"):
            check_disk(plan)
        with pytest.raises(DownloadError, match=r"of a\.bin are still to come, but .* only 1 kB"):
            download(plan)
    # The disk fills up while a file comes.
    monkeypatch.setattr(transfer, "flush", full)
    with pytest.raises(DownloadError, match=r"disk of .* is full: .* what has come stays"):
        download(plan)
    assert (plan.folder / "a.bin.incomplete").stat().st_size == len(CONTENT)


def full(path: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_folder_that_cannot_be_written_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DownloadError, match=r"cannot be written: .* --out"):
        got()


def test_a_record_that_cannot_be_read_is_not_overwritten(store: Store) -> None:
    folder = default_place("made")
    folder.mkdir(parents=True)
    (folder / "checksums.json").write_text("{")
    with pytest.raises(DownloadError, match=r"checksums\.json is not a record of digests"):
        got()
    assert (folder / "checksums.json").read_text() == "{"


def test_an_archive_is_unpacked_once_and_may_be_deleted(store: Store) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("VG_100K/1.jpg", b"photo")
    store.files["c.zip"] = packed.getvalue()
    folder = default_place("made")
    assert got(("c.zip",)).unpacked == {"c.zip": 1}
    assert (folder / "VG_100K" / "1.jpg").read_bytes() == b"photo"
    (folder / "VG_100K" / "1.jpg").unlink()
    assert got(("c.zip",)) == Done(checked=["c.zip"])
    (folder / "c.zip").unlink()
    told: list[str] = []
    assert got(("c.zip",), PullCallbacks(message=told.append)) == Done(checked=["c.zip"])
    assert "was unpacked and deleted" in told[0]
    assert plan_of("made", None, ("c.zip",)).rest == 0


def test_names_that_are_not_known_are_told(store: Store) -> None:
    with pytest.raises(
        DatasetError, match="no public source of 'nothing' is known: there are made"
    ):
        plan_of("nothing")
    with pytest.raises(DatasetError, match=r"no file 'd' in this set: it has a\.bin, in/b\.csv"):
        plan_of("made", None, ["d"])


def test_the_command_shows_the_licence_first(store: Store, tmp_path: Path) -> None:
    def run(app: typer.Typer, arguments: list[str]) -> Result:
        return CliRunner().invoke(app, ["get", *arguments])

    shown = run(app, ["made", "--dry-run"])
    assert shown.exit_code == 0
    assert shown.stdout.index("licence: MIT") < shown.stdout.index("a.bin")
    assert "1.0 MB" in shown.stdout or "1 MB" in shown.stdout
    assert "extras (--only): c.zip" in shown.stdout
    assert not store.ranges_of("a.bin")
    done = run(app, ["made", "--out", str(tmp_path / "there")])
    assert done.exit_code == 0, done.output
    assert "2 files are here and as they should be (2 fetched)." in done.stdout
    assert "No digest is known for in/b.csv" in done.stdout
    assert (tmp_path / "there" / "a.bin").is_file()
    data = json.loads(run(app, ["made", "--json", "--only", "a.bin"]).stdout)
    assert (data["fetched"], data["first_download"]) == (["a.bin"], [])
    assert run(app, ["nothing"]).exit_code == 2
    store.files.clear()
    assert run(app, ["made", "--only", "b.csv", "-o", str(tmp_path / "x")]).exit_code == 3
    assert "made up" in run(app, []).stdout


def test_much_is_not_fetched_without_being_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, store, bytes=10**9, sha256="0" * 64)
    answer = CliRunner().invoke(app, ["get", "made"])
    assert answer.exit_code == 2
    assert "1.0 GB would be fetched: add --yes" in answer.output


def test_the_table_of_sources_is_sound() -> None:
    table = base.sources()
    assert {"dsg", "tifa", "geneval", "partiprompts", "visual-genome", "coco"} <= table.keys()
    for source in table.values():
        assert source.licence
        assert source.chosen()
        for file in source.files:
            # Digests and exact sizes go together.
            assert file.sha256 is None or file.bytes is not None


def test_digests_are_those_of_the_published_files() -> None:
    if not SHARED.is_dir():
        pytest.skip("the published files are not on this machine")
    checked = 0
    for name in ("dsg", "tifa", "geneval", "partiprompts"):
        for file in base.find_source(name).files:
            here = SHARED / name / file.name
            if file.sha256 and here.is_file():
                assert hashlib.sha256(here.read_bytes()).hexdigest() == file.sha256
                assert here.stat().st_size == file.bytes
                checked += 1
    assert checked == 6


def test_default_places_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENEWRIGHT_DATA", "/big/disk")
    assert default_place("coco") == Path("/big/disk/coco")
    monkeypatch.delenv("SCENEWRIGHT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_place("coco") == Path("/data/scenewright/data/coco")
    assert downloads.RECORD == "checksums.json"
