"""What of an error a client may read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scenewright.graphs.errors import RunError
from scenewright.service.core.disclosure import MOST_DETAIL, Disclosure
from scenewright.service.core.errors import Unprocessable


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no space left for {data}/runs/run_1/events.jsonl: free some", "no space left for "
         "events.jsonl: free some"),
        ("the run in {data}/runs/run_1 cannot be kept", "the run in run_1 cannot be kept"),
        ("'{data}' is full", "'data' is full"),
        ("look at {data}/a.txt, {data}/b.txt", "look at a.txt, b.txt"),
        ("module {prefix}/lib/x.py broke", "module x.py broke"),
        ("two \n  lines\tof words\n", "two\n  lines\tof words"),
        ("it is at http://example.com{data}/x", "it is at http://example.com{data}/x"),
        ("a scene of /etc/hostname on /shelf", "a scene of /etc/hostname on /shelf"),
        ("the folder {data}base is another", "the folder {data}base is another"),
        ("half \ud800 a character", "half ? a character"),
    ],
)  # fmt: skip
def test_paths_of_the_server_are_left_out(tmp_path: Path, said: str, told: str) -> None:
    data = Path("/srv/of-scenes/data")
    words = {"data": data, "prefix": sys.prefix}
    disclosure = Disclosure(data)
    for kind in (RunError, Unprocessable):
        assert disclosure.text(kind(said.format(**words))) == told.format(**words)


def test_a_relative_folder_is_known_by_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disclosure = Disclosure(Path("data"))
    assert disclosure.clean(f"{tmp_path}/data/x.sqlite is gone") == "x.sqlite is gone"
    assert disclosure.clean("the data of the run") == "the data of the run"


def test_an_error_of_a_library_is_named_and_no_more() -> None:
    told = Disclosure().text(KeyError("unet.secret"))
    assert told.startswith("an error of the service (KeyError): its log says more")
    assert "secret" not in told
    assert Disclosure().text(RunError("")) == "RunError"
    assert len(Disclosure().text(RunError("x" * 10_000))) == MOST_DETAIL


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("the picture is damaged ({error}): save it anew", "the picture is damaged: save it anew"),
        ("it is not JSON: {error}. Write it anew", "it is not JSON. Write it anew"),
        ("fails on cpu: ValueError: {error}; use fewer steps", "fails on cpu; use fewer steps"),
        ("it does not load ({cut}): copy it again", "it does not load: copy it again"),
        ("{error}", "RunError"),
        ("it lacks 'unet'", "it lacks 'unet'"),
    ],
)
def test_what_an_error_quotes_of_a_library_is_left_out(said: str, told: str) -> None:
    library = ValueError("mat1 and mat2 shapes cannot be multiplied (4x8 and 9x2), " + "x" * 300)
    own = RunError(said.format(error=library, cut=str(library)[:200]))
    # As ``raise … from None`` leaves it.
    own.__context__ = library
    assert Disclosure().text(own) == told
    asked = Unprocessable(str(own))
    asked.__cause__ = own
    assert Disclosure().text(asked) == told.replace("RunError", "Unprocessable")


def test_a_name_that_was_looked_up_is_no_quote() -> None:
    name = "a_profile_of_a_long_name"
    error = Unprocessable(f"there is no profile: {name!r}")
    error.__cause__ = KeyError(name)
    assert Disclosure().text(error) == error.detail
