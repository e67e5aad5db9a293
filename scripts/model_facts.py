"""Write ``scenewright/providers/model_facts.toml`` from SDKs, a price map and ``model_facts.toml``.

``make facts``, or ``python scripts/model_facts.py [WHEEL]``: ends come from the docstrings and
tables of the installed SDKs, prices, efforts and successors from the price map inside a wheel of
litellm (fetched by pip unless it is named; nothing of it is installed), the rest from
``scripts/model_facts.toml``, which wins. Models that ended before September 2026 are left out.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from scenewright.providers.model_facts import FILE, read_facts, undated

ROOT = Path(__file__).parents[1]
OWN = Path(__file__).with_name("model_facts.toml")
TABLE = ROOT / "scenewright" / "providers" / FILE
LITELLM = "1.110.2"
MAP = "litellm/model_prices_and_context_window_backup.json"
GONE = date(2026, 9, 1)
"""Models that ended before are left out."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BASIC = ("low", "medium", "high")
_OTHER_USES = re.compile(
    r"audio|codex|computer|cyber|daybreak|deep-|embedding|exp-|ft:|image-1\.5-20|imagen|law|live"
    r"|gemma|lyria|omni|realtime|research|robotics|rosalind|search|speech|transcribe|tts|/.*/|-x-"
)
"""Models that are neither judges nor language models nor painters, and prices by size."""
_HOSTS = ("typesafe", "perplexity", "cloudflare")
_NAMES = re.compile(r'"([^"]+)"')
_DAYS = re.compile(r"\d{4}-\d{2}-\d{2}|[A-Z][a-z]+ \d{1,2}(?:st|nd|rd|th)?, \d{4}")
_PRICES = {
    "input": "input_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "output": "output_cost_per_token",
    "image_input": "input_cost_per_image_token",
    "image_output": "output_cost_per_image_token",
}
Table = dict[str, dict[str, dict[str, Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", type=Path, help=f"a wheel of litellm {LITELLM}")
    parser.add_argument("--date", type=date.fromisoformat, default=date.today())
    args = parser.parse_args()
    if args.wheel is not None:
        text = build(args.wheel, args.date)
    else:
        with tempfile.TemporaryDirectory() as folder:
            fetch = ["pip", "download", f"litellm=={LITELLM}", "--no-deps", "--quiet", "-d", folder]
            subprocess.run([sys.executable, "-m", *fetch], check=True)
            text = build(next(Path(folder).glob("*.whl")), args.date)
    TABLE.write_text(text, encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {len(read_facts(text).models)} rows")


def build(wheel: Path, today: date) -> str:
    """Return the text of the table."""
    own = tomllib.loads(OWN.read_text("utf-8"))
    sources = own.pop("sources")
    with zipfile.ZipFile(wheel) as archive:
        priced = json.loads(archive.read(MAP))
    name = "-".join(wheel.name.split("-")[:2])
    sources["litellm"] = {"text": f"the price map of {name}", "as_of": today}
    for sdk in ("openai", "anthropic"):
        sources[sdk] = {"text": f"{sdk} {version(sdk)}, the Python SDK", "as_of": today}
    table: Table = {}
    for model, row in priced_rows(priced):
        merge(table, model, row)
    for model, ends in sdk_ends().items():
        merge(table, model, {"end": {"ends": ends, "source": model.partition(":")[0]}})
    for model, row in own.items():
        merge(table, model, row)
    return "\n".join(lines(pruned(table), sources, today)) + "\n"


def merge(table: Table, model: str, row: Mapping[str, Mapping[str, Any]]) -> None:
    """Put ``row`` over what the table has of a model, key by key."""
    kinds = table.setdefault(model, {})
    for kind, facts in row.items():
        kinds[kind] = {**kinds.get(kind, {}), **facts}


def pruned(table: Table) -> Table:
    """Return the table without past models and without what a row of the model says already."""
    found: Table = {}
    for model, row in sorted(table.items()):
        end = row.get("end", {})
        if "ends" in end and end["ends"] < GONE:
            continue
        if "ends" not in end:
            row.pop("end", None)
        plain = table.get(undated(model), {}) if undated(model) != model else {}
        left = {
            kind: facts
            for kind, facts in row.items()
            if facts != plain.get(kind)
            and (kind != "end" or facts["ends"] != plain.get("end", {}).get("ends"))
        }
        if left:
            found[model] = left
    return found


def priced_rows(priced: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield prices, efforts and ends of the price map, by model."""
    for key, row in priced.items():
        provider, mode = row.get("litellm_provider"), row.get("mode")
        model = key.removeprefix(f"{provider}/")
        if provider in _HOSTS and mode == "evaluation" and "/" not in model:
            price = price_of(row)
            yield f"decision:{provider}/{model}", {"price": price}
        if provider not in ("openai", "gemini", "anthropic") or _OTHER_USES.search(key):
            continue
        if mode not in ("chat", "responses", "image_generation") or "/" in model:
            continue
        if provider == "gemini" and (key == model or not re.match(r"gemini-|nano-", model)):
            continue
        found: dict[str, dict[str, Any]] = {}
        if price := price_of(row):
            found["price"] = price
        if provider == "openai" and (chat := chat_of(row)):
            found["chat"] = chat
        if end := end_of(row, provider):
            found["end"] = end
        if found:
            yield f"{provider}:{model}", found


def price_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prices of a row of the map, in dollars for a million tokens."""
    found = {
        name: float(f"{row[key] * 1e6:.6g}")
        for name, key in _PRICES.items()
        if row.get(key) is not None
    }
    found.setdefault("output", found.get("image_output", 0.0))
    if found.get("image_output") == found["output"]:
        del found["image_output"]
    if found.get("image_input") == found.get("input"):
        found.pop("image_input", None)
    return {**found, "source": "litellm"} if found.get("input") else {}


def chat_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return efforts that an OpenAI model accepts, and its API where it has no other."""
    found: dict[str, Any] = {}
    told = {effort: row.get(f"supports_{effort}_reasoning_effort") for effort in EFFORTS}
    if row.get("supports_reasoning") and told["none"] is not None:
        found["efforts"] = [
            effort
            for effort in EFFORTS
            if told[effort] or (effort in _BASIC and told[effort] is not False)
        ]
    if row.get("mode") == "responses":
        found["api"] = "responses"
    return found


def end_of(row: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """Return the end and the successor in a row of the map."""
    found: dict[str, Any] = {}
    if day := row.get("deprecation_date"):
        found |= {"ends": date.fromisoformat(day), "source": "litellm"}
    if successor := row.get("successor_model"):
        found["successor"] = f"{provider}:{successor.rpartition('/')[2]}"
    return found


def sdk_ends() -> dict[str, date]:
    """Return the announced ends in the SDKs of OpenAI and Anthropic, by ``provider:model``."""
    from anthropic import _data
    from openai.types.image_model import ImageModel
    from openai.types.shared.chat_model import ChatModel

    found = {f"anthropic:{model}": day_of(told) for model, told in _data.DEPRECATED_MODELS.items()}
    for module, alias in (("shared.chat_model", ChatModel), ("image_model", ImageModel)):
        text = inspect.getsource(import_module(f"openai.types.{module}"))
        ends = _deprecated(text.partition("Deprecated values:")[2])
        found |= {f"openai:{model}": day for model, day in ends if model in get_args(alias)}
    return {model: day for model, day in found.items() if day is not None}


def _deprecated(text: str) -> Iterator[tuple[str, date | None]]:
    """Yield the models of a docstring's list, ``- "MODEL", "MODEL": what happens, with a day``."""
    for entry in " ".join(text.split()).split('- "')[1:]:
        names, _, rest = f'"{entry}'.partition('": ')
        for model in _NAMES.findall(f'{names}"'):
            yield model, day_of(rest)


def day_of(text: str) -> date | None:
    """Return the first day in ``text``."""
    found = _DAYS.search(text)
    if found is None:
        return None
    if found[0][:1].isdigit():
        return date.fromisoformat(found[0])
    plain = re.sub(r"(\d)(?:st|nd|rd|th)", r"\1", found[0])
    return datetime.strptime(plain, "%B %d, %Y").date()


def lines(table: Table, sources: Mapping[str, Any], today: date) -> Iterator[str]:
    """Yield the lines of the file: one for each kind of facts, or for each key of a long one."""
    yield "# Facts about providers' models. Written by `make facts` from the SDKs, a price map and"
    yield "# scripts/model_facts.toml, which has the reasons: edit that one."
    yield "format = 1"
    yield f"as_of = {today}"
    used = {facts.get("source") for row in table.values() for facts in row.values()}
    yield from (f"sources.{name} = {toml(one)}" for name, one in sources.items() if name in used)
    provider = ""
    for model, row in table.items():
        if model.partition(":")[0] != provider:
            provider = model.partition(":")[0]
            yield ""
        for kind, facts in sorted(row.items()):
            line = f'"{model}".{kind} = {toml(facts)}'
            if len(line) <= 150:
                yield line
            else:
                yield from (f'"{model}".{kind}.{key} = {toml(one)}' for key, one in facts.items())


def toml(value: Any) -> str:
    """Return ``value`` as TOML in one line."""
    if isinstance(value, dict):
        inner = (f"{key_of(key)} = {toml(one)}" for key, one in value.items())
        return f"{{ {', '.join(inner)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def key_of(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


if __name__ == "__main__":
    main()
