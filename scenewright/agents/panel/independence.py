"""Independence of models: no model votes twice, and none that steers a loop reports its result.

Built judges and chat models are compared by :mod:`scenewright.config.model_identity`: by name,
whatever account or copy they are reached through, and by the weights of local models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from scenewright.config.accounts import AccountSpec
from scenewright.config.model_identity import ModelIdentity, identity_of_spec, independence_problem
from scenewright.config.profiles import SettingsError
from scenewright.core.ports.judge import Judge

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Accounts = Mapping[str, AccountSpec] | None
"""Accounts of the settings by name, for models named by them."""


def identity_of_judge(judge: Judge, accounts: Accounts = None) -> ModelIdentity:
    """Return the identity of a built judge: its own ``identity``, else by its id.

    May read the weights of a local model, which takes seconds.
    """
    found = getattr(judge, "identity", None)
    if isinstance(found, ModelIdentity):
        return found
    named = identity_of_spec(judge.id, accounts)
    return ModelIdentity(
        judge.id, "" if named is None else named.name, fingerprint=judge.fingerprint
    )


def identity_of_chat(chat: BaseChatModel, accounts: Accounts = None) -> ModelIdentity | None:
    """Return the identity of a chat model by its name.

    None for a script, and where it is unknown.
    """
    spec = getattr(chat, "id", None)
    if isinstance(spec, str) and ":" in spec:
        return identity_of_spec(spec, accounts)
    names = (getattr(chat, key, None) for key in ("model_name", "model", "model_id", "deployment"))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return identity_of_spec(f"{type(chat).__name__}:{name}") if name else None


def check_independence(
    loop: Iterable[Judge],
    report: Iterable[Judge] = (),
    director: BaseChatModel | None = None,
    *,
    self_report: bool = False,
    accounts: Accounts = None,
) -> None:
    """Raise ``SettingsError`` if one model is in the panels twice, under any names.

    Two votes of one model are one vote that counts double, and a model that steers the loop, as a
    judge or as its ``director``, must not report its result, unless ``self_report`` says so.
    """
    problem = independence_problem(
        _identities(loop, accounts),
        _identities(report, accounts),
        None if director is None else identity_of_chat(director, accounts),
        self_report=self_report,
    )
    if problem:
        raise SettingsError(problem)


def _identities(judges: Iterable[Judge], accounts: Accounts) -> Sequence[ModelIdentity]:
    # A judge for both facts and realism is in both panels of its side.
    each = {judge.id: judge for judge in judges}
    return [identity_of_judge(judge, accounts) for judge in each.values()]
