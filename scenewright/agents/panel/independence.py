"""Independence of judges: no model votes twice, and none that steers a loop reports its result.

Built judges and chat models are compared by what :mod:`scenewright.config.model_identity` says of a
model: its name whatever account or copy it is reached through, and the weights of local models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from scenewright.config.accounts import AccountSpec
from scenewright.config.model_identity import ModelIdentity, apart_problem, identity_of_spec
from scenewright.config.settings import SettingsError
from scenewright.core.ports.judge import Judge

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


Accounts = Mapping[str, AccountSpec] | None
"""The accounts of the settings by name: they tell what a name of their own means."""


def identity_of_judge(judge: Judge, accounts: Accounts = None) -> ModelIdentity:
    """The identity of a built judge: its own ``identity``, else what its id tells.

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
    """The identity of a chat model by its model's name; None for a script, and where nothing
    tells it."""
    spec = getattr(chat, "id", None)
    if isinstance(spec, str) and ":" in spec:
        return identity_of_spec(spec, accounts)
    names = (getattr(chat, key, None) for key in ("model_name", "model", "model_id", "deployment"))
    name = next((name for name in names if isinstance(name, str) and name), "")
    return identity_of_spec(f"{type(chat).__name__}:{name}") if name else None


def check_apart(
    loop: Iterable[Judge],
    report: Iterable[Judge] = (),
    director: BaseChatModel | None = None,
    *,
    self_report: bool = False,
    accounts: Accounts = None,
) -> None:
    """Raises ``SettingsError`` if one model stands twice in the panels, under whatever names.

    Two votes of one model are one vote that counts double, and a model that steers the loop, as a
    judge or as its ``director``, must not report its result, unless ``self_report`` says so.
    """
    problem = apart_problem(
        _identities(loop, accounts),
        _identities(report, accounts),
        None if director is None else identity_of_chat(director, accounts),
        self_report=self_report,
    )
    if problem:
        raise SettingsError(problem)


def _identities(judges: Iterable[Judge], accounts: Accounts) -> Sequence[ModelIdentity]:
    # A judge that is asked facts of a scene and realism too stands in both panels of its side.
    each = {judge.id: judge for judge in judges}
    return [identity_of_judge(judge, accounts) for judge in each.values()]
