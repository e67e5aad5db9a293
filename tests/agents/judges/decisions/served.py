"""``transformers serve`` on this machine, over a judge of the miniature."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS, judge_folder

STARTING_SECONDS = 240.0
"""Far above the ten seconds that it takes on an idle machine."""
# A sheet of one question in the words of the judge's own prompts.
CHAT_TEMPLATE = r"""
{%- set text = messages[-1].content | selectattr("type", "equalto", "text")
    | map(attribute="text") | join -%}
{%- set words = text.split('"') -%}
{{- "<user><image>" ~ words[1] -}}
{%- if words | length < 4 -%}
    {{- "\nAnswer with yes or no." -}}
{%- else -%}
    {%- for at in range(3, words | length, 2) -%}
        {{- (" " if loop.first else "; ") ~ words[at].split(":") | join(") ") -}}
    {%- endfor -%}
    {{- ".\nAnswer with the letter of the right option." -}}
{%- endif -%}
{{- "<judge>" -}}
"""
_SHEET = {"answers": [{"n": 1, "a": "{said}"}], "why": []}
_CALL = {"name": "report_answers", "arguments": _SHEET}
# The one word that the judge says, as the call of the tool that a sheet asks for.
RESPONSE_TEMPLATE: dict[str, Any] = {
    "start_anchor": "<judge>",
    "fields": {
        "tool_calls": {
            "open_pattern": r"^\s*(?P<said>[A-Za-z]+)",
            "close_pattern": "$",
            "content": "text",
            "repeats": True,
            "transform": {"type": "function", "function": _CALL},
        },
        "content": {"content": "text"},
    },
}


def chatting(model: str, folder: Path) -> Path:
    """A copy of the judge ``local:model`` in ``folder`` that answers sheets of one question."""
    folder.mkdir(parents=True)
    for file in judge_folder(model).iterdir():
        if file.suffix == ".safetensors":
            (folder / file.name).symlink_to(file)
        else:
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE.strip(), encoding="utf-8")
    settings = folder / "tokenizer_config.json"
    told = json.loads(settings.read_text(encoding="utf-8"))
    told["response_template"] = RESPONSE_TEMPLATE
    settings.write_text(json.dumps(told), encoding="utf-8")
    return folder


@contextmanager
def transformers_serve(log: Path) -> Iterator[str]:
    """The address of a server that loads what requests name, in float32 on the CPU."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve"),
        *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"),
        *("--decision-config", str(MINIATURE_WEIGHTS / "decision.json")),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + STARTING_SECONDS
        while not _healthy(address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
