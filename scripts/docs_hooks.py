"""Hooks of the documentation site (``mkdocs.yml``): links to files of the repository, diagrams.

Pages link to files beside ``docs/`` (``../examples/peers.toml``), as a reader of the checkout
expects. The site holds a copy of each such file below ``files/``. Pages with a Mermaid diagram
load the copy of Mermaid in ``docs/assets``, so that no page asks another host for anything.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = re.compile(r"(?<=\]\()\.\./([^)#\s]+)(#[^)\s]*)?(?=\))")
"""Target of a link to a file outside of ``docs/``."""


def _copy_of(target: str) -> str:
    """Return the place of a copied file; Markdown is shown as text."""
    return f"files/{target}.txt" if target.endswith(".md") else f"files/{target}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository that pages link to."""
    root = Path(config.docs_dir).parent
    wanted = {
        match[1]
        for file in files.documentation_pages()
        for match in OUTSIDE.finditer(file.content_string)
    }
    for target in sorted(wanted):
        if not (root / target).is_file():
            raise Abort(f"a page links to {target}, which is not a file of the repository")
        files.append(
            File.generated(config, _copy_of(target), content=(root / target).read_bytes())
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to files of the repository at their copies."""
    return OUTSIDE.sub(lambda match: _copy_of(match[1]), markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load Mermaid on pages that hold a diagram."""
    if 'class="mermaid"' not in output:
        return output
    up = "../" * page.url.count("/")
    return output.replace("</head>", f'<script src="{up}assets/mermaid.min.js"></script></head>', 1)
