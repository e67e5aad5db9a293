"""Options that several commands share, and the values that they stand for.

Args:
    as_json: Print JSON on standard output, nothing else.
    quiet: Show no progress.
    yes: Do not ask, whatever it costs.
    dry_run: Show what would be fetched, and stop.
    retry: Try again what failed or was left unscored.
    limit_usd: Ask before work that costs more than this many dollars.
    max_usd: Begin no round after this many dollars; by default limit_usd of the profile or of
        scenewright.toml, else 5.
    profile: Models to use (`scenewright doctor` lists the profiles).
    seed: Random seed: the same one, the same result.
    resamples: Bootstrap resamples.
    host: Address to listen on; 0.0.0.0 for other machines too.
    index: Which scene of a file that holds several, from 0.
    judges (JUDGE[,JUDGE…]): Judges as kind:model (`scenewright judges list`), in place of the
        profile's; can be given several times.
    detector (NAME): Detector of objects: miniature, json:FILE, or
        transformers:FOLDER_OR_OWNER/NAME.
    labels (A,B,…): Classes that the detector looks for; open-vocabulary detectors need them.
    device: Device: auto, cpu, cuda, cuda:1, ….
    engine: local, or ray for workers of a cluster (docs/scaling.md).
    workers: Workers of --engine ray; by default one a GPU, else one a CPU.
    address: Ray cluster, as HOST:PORT or auto; empty: this machine.
    include_doubtful: Draw and score items whose prompt could be read in another way, which are
        unscored otherwise.
    on_model_change: If a judge is served by another version than before: stop with an error (what
        is judged is kept), split the tables by version, or accept the mixture and note it. Default:
        what CONFIG says, else stop.
    models (PROFILE[,PROFILE…]): Profiles that draw, for a recipe; default: yours.
    judge (JUDGE[,JUDGE…]): Judges of a recipe's metrics as kind:model, in place of the report
        judges of your profile; can be given several times.
    loop (N): Also run the loop, and the best of N: each may draw N pictures of an item.
    per_prompt (N): Pictures of each prompt of a recipe; default 1.
    sentinels: Sentinel questions for each question to a judge behind an API, to notice a model
        exchanged under its old name; 0 asks none. Default: what CONFIG says, else 0.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from scenewright.cli.console import fail, split_list

if TYPE_CHECKING:
    from pydantic import BaseModel

    from scenewright.config.profiles import Profile
    from scenewright.config.settings import Settings

ModelT = TypeVar("ModelT", bound="BaseModel")
Out = Annotated[Path, typer.Option("--out", "-o")]
OptionalOut = Annotated[Path | None, typer.Option("--out", "-o")]
EvalOut = Annotated[
    Path | None, typer.Option("--out", "-o", help="The folder; by default evals/NAME.")
]
EvalFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder that `scenewright eval run` wrote.")
]
Positive = Annotated[int, typer.Option(min=1)]
OptionalPositive = Annotated[int | None, typer.Option(min=1)]
Share = Annotated[float, typer.Option(min=0.0, max=1.0)]
OptionalShare = Annotated[float | None, typer.Option(min=0.0, max=1.0)]
OptionalAmount = Annotated[float | None, typer.Option(min=0.0)]
Json = Annotated[bool, typer.Option("--json")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q")]
Yes = Annotated[bool, typer.Option("--yes", "-y")]
NoQuestion = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it starts.")]
DryRun = Annotated[bool, typer.Option("--dry-run")]
Plan = Annotated[bool, typer.Option("--plan", help="Show what it will take, and stop.")]
Retry = Annotated[bool, typer.Option("--retry")]
LimitUsd = Annotated[float, typer.Option(min=0.0)]
MaxUsd = Annotated[float | None, typer.Option("--max-usd", min=0.000001)]
ProfileName = Annotated[str | None, typer.Option("--profile", "-p")]
Seed = Annotated[int, typer.Option("--seed", "-s", min=0)]
Rounds = Annotated[
    int, typer.Option("--rounds", "-r", min=1, max=100, help="Most rounds of drawing and judging.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only the first N items.")]
Resamples = Annotated[int, typer.Option(min=100, max=1_000_000)]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Pictures = Annotated[
    list[Path], typer.Argument(metavar="PICTURE...", help="Picture files, or folders of them.")
]
Judges = Annotated[list[str] | None, typer.Option("--judges", "-j")]
RecipeModels = Annotated[str, typer.Option("--models", "-m")]
RecipeJudge = Annotated[list[str] | None, typer.Option("--judge", "-j")]
Loop = Annotated[int | None, typer.Option("--loop", min=2)]
Detector = Annotated[str | None, typer.Option("--detector", "-d")]
Address = Annotated[str, typer.Option(show_default=False)]


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def validated(model: type[ModelT], values: Mapping[str, Any], prefix: str = "") -> ModelT:
    """Return the model of a command's options; a wrong one ends the command."""
    from pydantic import ValidationError

    from scenewright.core.validation import first_problem

    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise fail(prefix + first_problem(error)) from error


def chosen_profile(name: str | None) -> tuple[Settings, Profile]:
    """Return the settings, and the profile of that name or the default one."""
    from scenewright.config.settings import find_profile, load_settings

    settings = load_settings()
    return settings, find_profile(name or settings.profile, settings)


def answers_file(store: Path | None, out: Path | None = None) -> Path:
    """Return the file of stored answers: ``store``, else in ``out``, else in the user's folder."""
    if store is not None:
        return store
    return out / "answers.db" if out else Path(typer.get_app_dir("scenewright")) / "judges.db"


def named_values(option: str, texts: Iterable[str], form: str, example: str) -> dict[str, str]:
    """Return the names and values of an option such as ``--set NAME=VALUE``.

    ``form`` and ``example`` are what the error of a text without both names.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise fail(f"{option} {text!r}: write {form}, such as {example}")
        found[name.strip()] = value.strip()
    return found


def whole_numbers(option: str, text: str, least: int, example: str) -> tuple[int, ...]:
    """Return the numbers, from ``least``, of an option that holds several with commas between."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least:
        raise fail(f"{option} is {text!r}: write whole numbers from {least}, such as {example}")
    return numbers


def label_names(labels: str | None) -> tuple[str, ...]:
    """Return the classes of ``--labels``; the command ends where it names none."""
    names = split_list(labels)
    if labels is not None and not names:
        raise fail("--labels names no class: write for example --labels dog,ball")
    return names


def judges_or_profile(
    judges: Sequence[str] | None, profile: str | None
) -> tuple[Settings, Profile | None]:
    """Return the settings, and the profile of the judges; None where ``--judges`` names them."""
    from scenewright.config.settings import load_settings

    if judges and profile:
        raise fail("give --judges or --profile, not both")
    return (load_settings(), None) if judges else chosen_profile(profile)
