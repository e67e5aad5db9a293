"""Options of a run on the command line, derived from the model that declares them.

``scenewright.config.options.RunOptions`` has name, type, limits and text of each; a command that
takes some of them is marked by :func:`takes_run_options` and reads them by :func:`run_options`.
They are derived when such a command is parsed, so that ``scenewright --help`` loads no model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin

import typer

from scenewright.cli.console import split_list

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from scenewright.config.options import RunOptions

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_MARK = "__run_options__"
_VALUES = "scenewright.run_options"
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "judges": ("--judges", "-j"),
    "strategy": ("--strategy", "-S"),
    "rounds": ("--rounds", "-r"),
    "seed": ("--seed", "-s"),
    "reader": ("--with",),
    "realism": ("--realism",),
    "self_report": ("--self-report",),
}
"""Flags that are not the option's own name."""
_MORE = {
    "max_usd": " By default limit_usd of the profile or of scenewright.toml, else 5.",
    "judges": " `scenewright judges list` lists them; can be given several times.",
}
"""Texts beyond those of the model."""
_NO_LIMIT = 1_000_000
"""Bounds from here on are left to the model, which checks all of them."""
_LIMIT = "max_"
"""Prefix of the limits of a budget."""


def takes_run_options(*names: str) -> Callable[[CommandT], CommandT]:
    """Return a decorator of commands that take the options ``names``; none: all of a run."""

    def marked(command: CommandT) -> CommandT:
        setattr(command, _MARK, names)
        return command

    return marked


def derived_parameters(command: object) -> list[Any]:
    """Return the parameters of the options that a command is marked to take."""
    names = getattr(command, _MARK, None)
    if names is None:
        return []

    def options(**_: Any) -> None: ...

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _options(names)
    ]
    vars(options)["__signature__"] = inspect.Signature(parameters)
    options.__annotations__ = {one.name: one.annotation for one in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(options)
    return [one for one in typer.main.get_command(app).params if one.name != "help"]


def run_options(context: typer.Context) -> RunOptions:
    """Return the options given to the command at work.

    A value that is not possible ends the command with a usage error.
    """
    from pydantic import ValidationError

    from scenewright.config.options import RunOptions
    from scenewright.core.validation import first_problem

    values: dict[str, Any] = dict(context.meta.get(_VALUES, {}))
    budget = {name: values.pop(name) for name in list(values) if name.startswith(_LIMIT)}
    for name in ("judges", "report_judges"):
        if name in values:
            values[name] = split_list(values[name])
    limits = {name.removeprefix(_LIMIT): value for name, value in budget.items()}
    try:
        return RunOptions.model_validate({**values, "budget": limits})
    except ValidationError as error:
        place = error.errors(include_url=False)[0]["loc"]
        name = f"{_LIMIT}{place[1]}" if place[:1] == ("budget",) else str((*place, "")[0])
        flag = _FLAGS.get(name, (f"--{name.replace('_', '-')}",))[0] if name else ""
        problem = first_problem(error).removeprefix(".".join(map(str, place))).lstrip(": ")
        raise typer.BadParameter(problem, param_hint=flag or None) from error


def _store(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Keep a value that was given, for :func:`run_options`."""
    if value is not None:
        context.meta.setdefault(_VALUES, {})[str(param.name)] = value
    return value


def _options(names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield name and annotation of the options, those of the budget one by one."""
    from scenewright.config.options import PARTS, Budget

    for part, model in PARTS.items():
        for name, field in model.model_fields.items():
            if names and name not in names:
                continue
            if field.annotation is Budget:
                for limit, each in Budget.model_fields.items():
                    yield f"{_LIMIT}{limit}", _annotation(f"{_LIMIT}{limit}", each, "limits")
            else:
                yield name, _annotation(name, field, part)


def _annotation(name: str, field: FieldInfo, part: str) -> Any:
    kind = _type_of(field.annotation)
    limits = {
        {"ge": "min", "le": "max"}[bound]: getattr(one, bound)
        for one in _metadata(field)
        for bound in ("ge", "le")
        if hasattr(one, bound) and kind in (int, float) and getattr(one, bound) < _NO_LIMIT
    }
    text = " ".join((field.description or "").replace("``", "").split()) + _MORE.get(name, "")
    if isinstance(field.default, int) and field.default is not False:
        text += f" Default: {field.default}."
    option = typer.Option(
        *_FLAGS.get(name, ()),
        help=text,
        rich_help_panel=part.capitalize(),
        show_default=False,
        expose_value=False,
        callback=_store,
        metavar="JUDGE[,JUDGE…]" if name.endswith("judges") else None,
        **limits,
    )
    return Annotated[kind | None, option]


def _type_of(annotation: Any) -> Any:
    """Return the type of a value on the command line: a scalar, choices, or a list of texts."""
    if get_origin(annotation) is Annotated:
        return _type_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _type_of(next(one for one in get_args(annotation) if one is not type(None)))
    return list[str] if get_origin(annotation) is tuple else annotation


def _metadata(field: FieldInfo) -> Iterator[Any]:
    """Yield the constraints of a field, and those of the type within its union with None."""
    yield from field.metadata
    for one in get_args(field.annotation):
        for extra in getattr(one, "__metadata__", ()):
            yield from getattr(extra, "metadata", (extra,))
