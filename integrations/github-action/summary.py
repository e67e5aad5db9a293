"""Write outputs and summary of a GitHub job from the ``gate.json`` of a folder."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def summary(result: dict[str, Any]) -> str:
    """Return a result as Markdown."""
    mark = {"not worse": "✅", "worse": "❌"}.get(result["verdict"], "❔")
    lines = [f"### {mark} {result['candidate']} against {result['baseline']}: {result['verdict']}"]
    lines += ["", result["reason"], ""]
    if result["difference"] is not None:
        interval = ""
        if result["low"] is not None:
            interval = f" (95 %: {result['low']:+.3f} to {result['high']:+.3f})"
        lines += [
            f"{result['metric']}: {result['before']:.3f} → {result['after']:.3f}, "
            f"{result['difference']:+.3f}{interval}, over {result['scenes']} scenes.",
            "",
        ]
    if result["kinds"]:
        names = ("lost", "gained", "kept", "absent", "unscored")
        lines += [f"| facts | {' | '.join(names)} |", f"| --- {'| ---: ' * len(names)}|"]
        for kind, counts in result["kinds"].items():
            lines.append(f"| {kind} | {' | '.join(str(counts[name]) for name in names)} |")
        lines.append("")
    lines += [f"- {n} scenes left out: {why}" for why, n in result["left_out"].items()]
    lines += [f"- {note}." for note in result["notes"]]
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Append to the files that the runner names."""
    result = json.loads((folder / "gate.json").read_text(encoding="utf-8"))
    outputs = {name: result[name] for name in ("verdict", "difference", "scenes")}
    outputs["page"] = folder / "report" / "index.html"
    lines = [f"{name}={'' if value is None else value}" for name, value in outputs.items()]
    for variable, text in (
        ("GITHUB_OUTPUT", "\n".join(lines) + "\n"),
        ("GITHUB_STEP_SUMMARY", summary(result)),
    ):
        if os.environ.get(variable):
            with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
