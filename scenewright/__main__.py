"""``python -m scenewright``: the command line where the script is not on the path."""

from __future__ import annotations

from scenewright.cli.main import app

if __name__ == "__main__":
    app(prog_name="scenewright")
