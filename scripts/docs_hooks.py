"""Hooks of the documentation site (``mkdocs.yml``): links to files of the repository, no CDN.

Pages link to files beside ``docs/`` (``../examples/peers.toml``), as a reader of the checkout
expects. The site holds a copy of each such file below ``files/``. Scripts that the theme would
load from a CDN come from ``docs/assets``, so that no page asks another host for anything.
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
REMOTE = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="https?://[^"]*"')
"""A tag that makes a browser ask another host (``link`` tags: styles, fonts and icons)."""
SHIM = "https://unpkg.com/iframe-worker/shim"
"""Script of the plugin ``offline``: lets the search work from ``file://``."""


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
        files.append(File.generated(config, _copy_of(target), content=(root / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links to files of the repository at their copies."""
    return OUTSIDE.sub(lambda match: _copy_of(match[1]), markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load scripts from the site: the search's shim, and Mermaid on pages that hold a diagram."""
    assets = "../" * page.url.count("/") + "assets"
    output = output.replace(SHIM, f"{assets}/iframe-worker.js")
    if 'class="mermaid"' in output:
        script = f'<script src="{assets}/mermaid.min.js"></script>'
        output = output.replace("</head>", f"{script}</head>", 1)
    if found := REMOTE.search(output):
        raise Abort(f"{page.file.src_uri} would load from another host: {found[0]}")
    return output
