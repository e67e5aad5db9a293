"""What holds for every test: no network, and checkpoints that rebuild declared types only.

The libraries read these variables when they are imported, so they are set before any test is.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator

import certifi
import pytest
from hypothesis import HealthCheck, settings

# Imports and collected tests are more than a million objects that stay until the end: searches for
# garbage would go through them again and again, for a fifth of the suite's time.
gc.disable()

# Tests start many processes: each would compile anew what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Tests that run side by side are told a narrow terminal; output without one is as wide as it likes.
os.environ.pop("COLUMNS", None)
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
# Keys that somebody stored on this machine are not for tests.
os.environ["XDG_CONFIG_HOME"] = os.path.join(tempfile.gettempdir(), "scenewright-no-config")


def leave_out_of_searches() -> None:
    """Keep all that is there now out of the searches for garbage.

    A search of the million objects that the libraries make takes a second, and every backend that
    is closed asks for one.
    """
    gc.collect()
    gc.freeze()
    _left_out.append(len(sys.modules))


_left_out: list[int] = []
_MANY_MODULES = 50


def pytest_collection_finish() -> None:
    """Search for garbage from here on, among what the tests make."""
    leave_out_of_searches()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Leave out what a file's tests imported; between files, as no test's own objects live then."""
    result = yield
    ends = nextitem is not None and nextitem.path != item.path
    if ends and len(sys.modules) - _left_out[-1] > _MANY_MODULES:
        leave_out_of_searches()
    return result


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clients trust one authority only: reading all of them takes longer than most tests."""
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    end = "-----END CERTIFICATE-----"
    file.write_text(certifi.contents().partition(end)[0] + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture(autouse=True)
def nothing_known_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of earlier tests may have had the same address and key."""
    monkeypatch.setattr("scenewright.providers.clients.negotiation.found_file", lambda: None)


# Machines that test are shared: how long an example takes says nothing about the code. A server
# that tests every change has the time for more examples than whoever waits for them.
settings.register_profile(
    "house",
    deadline=None,
    max_examples=100 if os.environ.get("CI") else 32,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")
