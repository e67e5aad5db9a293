"""What the hub refused, as a sentence that says what to do."""

from __future__ import annotations

import errno

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from scenewright.providers.hub.known import known_repositories

LOG_IN = "`hf auth login` (or a token of yours in HF_TOKEN)"


class HubError(RuntimeError):
    """Models that could not be fetched: says why, and how to go on."""


def explained(error: BaseException, repository: str) -> HubError:
    """``error`` of a request about ``repository`` as a :class:`HubError`."""
    if isinstance(error, HubError):
        return error
    cause = error.__cause__
    if isinstance(error, LocalEntryNotFoundError) and isinstance(cause, Exception):
        return explained(cause, repository)
    return HubError(f"{repository}: {_reason(error, repository)}")


def _reason(error: BaseException, repository: str) -> str:
    page = f"{constants.ENDPOINT}/{repository}"
    if isinstance(error, GatedRepoError):
        entry = known_repositories().get(repository)
        licence = f" ({entry.licence})" if entry is not None else ""
        return (
            f"it is gated: open {page}, accept its licence{licence} with your account, log in here "
            f"with {LOG_IN}, and pull again"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"{constants.ENDPOINT} has no such repository, or it is private: check the name; "
            f"if it is private, log in with {LOG_IN}"
        )
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, which forbids the network: unset it to pull"
    if isinstance(error, HfHubHTTPError):
        return _of_status(error.response.status_code, page)
    if isinstance(error, httpx2.HTTPError):
        return (
            f"{constants.ENDPOINT} cannot be reached ({type(error).__name__}: {error}): check the "
            "network or the proxy (HF_ENDPOINT names a mirror), then pull again: what is here stays"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full: free some space or set HF_HOME to a larger disk, then pull again"
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{text}: pull again; what is here stays"


def _of_status(status: int, page: str) -> str:
    if status == 401:
        return f"the hub does not take your token (401): log in again with {LOG_IN}"
    if status == 403:
        return (
            f"the hub refuses access (403): look at {page} with the account that you log in "
            f"with ({LOG_IN})"
        )
    if status == 404:
        return f"a file that its listing names is not there (404): look at {page}, pull again"
    if status == 429:
        return "too many requests (429): wait some minutes, then pull again: what is here stays"
    return f"the hub answers {status}: pull again later; what is here stays"
