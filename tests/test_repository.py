"""The rules of the house: sizes, the direction of imports, what ships and what does not."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.config.settings import SETTINGS_FILE, Settings, load_profiles, load_settings
from scenewright.prompts import load_prompt

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "scenewright"
WEIGHTS = PACKAGE / "miniature" / "weights"
MAX_LINES = 800
MAX_PAGES = 33
MAX_BYTES = 8 * 2**20

# A module may import from its own line and from those above it; the longest prefix decides.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("core", "prompts"),
    ("config",),
    ("providers",),
    ("agents",),
    ("tools",),
    ("graphs", "miniature"),
    ("runs",),
    ("evals", "mock_providers", "service"),
    ("cli",),
    ("", "__main__"),
)
# Models reach the loop as folders, through the ports; only these may know the painter.
KNOW_THE_MINIATURE = ("miniature", "cli", "evals")
TEXT = {".py", ".md", ".css", ".html", ".j2", ".js", ".svg", ".toml"}
UNFINISHED = re.compile(
    r"\b(TODO|FIXME|XXX|HACK|TBD|WIP|NotImplementedError)\b"
    r"|(?i:\b(lorem ipsum|coming soon|not yet implemented|not implemented yet)\b)"
)


VENDORED = ("cytoscape.js",)
"""Libraries that the package carries as they are published."""


def package_files() -> list[Path]:
    """Text files of the package, without the weights and other projects' libraries."""
    return sorted(
        path
        for path in PACKAGE.rglob("*")
        if path.suffix in TEXT
        and path.is_file()
        and WEIGHTS not in path.parents
        and path.name not in VENDORED
    )


@cache
def modules() -> dict[str, Path]:
    """Dotted name below the package (``""`` is the package itself) → file."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def named(module: str | None, names: list[str]) -> Iterator[str]:
    """What ``from module import names`` reaches, below the package."""
    if module == "scenewright" or (module or "").startswith("scenewright."):
        base = (module or "").removeprefix("scenewright").removeprefix(".")
        for name in names:
            inner = f"{base}.{name}".removeprefix(".")
            yield inner if inner in modules() else base


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Imported module below the package, and the line."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield from ((target, node.lineno) for target in named(node.module, names_of(node)))
        elif isinstance(node, ast.Import):
            for name in names_of(node):
                yield from ((target, node.lineno) for target in named(name, [""]))


def names_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names]


def within(module: str, prefix: str) -> bool:
    return module == prefix or (prefix != "" and module.startswith(f"{prefix}."))


@cache
def layer(module: str) -> int:
    """Line of :data:`LAYERS` that ``module`` belongs to."""
    fitting = [
        (len(prefix), at)
        for at, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if within(module, prefix)
    ]
    assert fitting, f"scenewright.{module} has no line in LAYERS: give it one"
    return max(fitting)[1]


def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def import_statements(module: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Imports wherever they stand in the file; its tree, a thousand times as large, is let go."""
    nodes = ast.walk(tree(module))
    return tuple(node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def git(*arguments: str) -> list[str]:
    """Lines of a git command's output; skips where there is no checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(
        ["git", *arguments, "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.split("\0") if line]


def test_every_file_of_the_package_has_one_subject() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in package_files()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"split these, the limit is {MAX_LINES} lines"


def test_imports_go_one_way() -> None:
    wrong = [
        f"scenewright.{module or '__init__'}, line {line}: imports {target or 'scenewright'}"
        for module, target, line in all_imports()
        if layer(target) > layer(module)
    ]
    assert not wrong


@cache
def all_imports() -> tuple[tuple[str, str, int], ...]:
    """(importing module, imported one, line) of every import, wherever it stands in its file."""
    return tuple(
        (module, target, line)
        for module in modules()
        for target, line in imports(import_statements(module))
    )


@cache
def edges() -> frozenset[tuple[str, str]]:
    """(importing, imported) module of every import."""
    return frozenset((module, target) for module, target, _ in all_imports() if target != module)


def circles(found: Iterable[tuple[str, str]]) -> list[list[str]]:
    return [
        sorted(c) for c in nx.strongly_connected_components(nx.DiGraph(list(found))) if len(c) > 1
    ]


def children(parent: str, found: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Imports between the direct children of a package; with each pair, the modules that do it."""
    depth = parent.count(".") + 2 if parent else 1
    pairs: dict[tuple[str, str], list[str]] = {}
    for module, target in found:
        one, other = (".".join(name.split(".")[:depth]) for name in (module, target))
        inside = within(module, parent) and within(target, parent) if parent else True
        if inside and one != other and parent not in (one, other):
            pairs.setdefault((one, other), []).append(f"{module} → {target}")
    return pairs


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(edges()) == []


@pytest.mark.parametrize(
    "parent", sorted({"", *(m.rpartition(".")[0] for m in modules())}), ids=lambda p: p or "."
)
def test_no_packages_of_one_parent_import_each_other_in_a_circle(parent: str) -> None:
    pairs = children(parent, edges())
    wrong = {
        f"{one} → {other}": sorted(pairs[one, other])
        for circle in circles(pairs)
        for one, other in pairs
        if one in circle and other in circle
    }
    assert not wrong, "turn round the shortest of these lists: move what it needs to a lower room"


def test_a_circle_between_packages_is_found() -> None:
    pairs = children("", [("a.b", "c.d"), ("c.e.f", "a"), ("a.b", "a.g")])
    assert pairs == {("a", "c"): ["a.b → c.d"], ("c", "a"): ["c.e.f → a"]}
    assert circles(pairs) == [["a", "c"]]
    assert children("a", [("a.b.c", "a.d"), ("a.b", "e.d"), ("ab.c", "ab.d")]) == {
        ("a.b", "a.d"): ["a.b.c → a.d"]
    }


def test_the_miniature_is_reached_through_the_ports_only() -> None:
    wrong = [
        f"scenewright.{module}, line {line}"
        for module, target, line in all_imports()
        if within(target, "miniature")
        if not any(within(module, prefix) for prefix in KNOW_THE_MINIATURE)
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("graphs.refine", "agents.panel", True),
        ("agents.panel", "graphs.refine", False),
        ("providers", "core.ports.judge", True),
        ("providers", "agents.panel", False),
        ("agents", "tools.vision", False),
        ("", "runs", True),
        ("runs", "", False),
        ("service", "", False),
        ("mock_providers", "cli", False),
        ("runs", "cli", False),
        ("core.facts", "config.settings", False),
    ],
)
def test_the_table_of_layers_says_what_the_design_says(
    importer: str, imported: str, allowed: bool
) -> None:
    assert (layer(imported) <= layer(importer)) is allowed


def architecture() -> str:
    return (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def members(room: str) -> set[str]:
    """Modules and packages (``name/``) that lie directly in a room."""
    below = {name.removeprefix(f"{room}.") for name in modules() if name.startswith(f"{room}.")}
    packages = {name.partition(".")[0] for name in below if "." in name}
    return {f"{name}/" for name in packages} | {
        name for name in below if name.partition(".")[0] not in packages
    }


def test_the_page_on_the_architecture_has_the_rooms_in_their_order() -> None:
    told = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (.*) \|$", architecture(), re.MULTILINE)
    rooms = [(row, name) for row, names in enumerate(LAYERS, start=1) for name in names]
    assert [(int(row), room) for row, room, _ in told] == [
        (row, name or "__init__") for row, name in rooms
    ], "docs/architecture.md, table of rooms: make rows and order those of LAYERS"
    top = {name.partition(".")[0] for name in modules()}
    assert top == {name for _, name in rooms}, "give each room a row in LAYERS"
    reached: dict[str, set[str]] = {room: set() for _, room, _ in told}
    for module, target in edges():
        one, other = (name.partition(".")[0] or "__init__" for name in (module, target))
        if one != other and other in reached:
            reached[one].add(other)
    assert {room: set(re.findall(r"`(\w+)`", cell)) for _, room, cell in told} == reached, (
        "docs/architecture.md, table of rooms: the last column is what a room imports"
    )


@pytest.mark.parametrize("room", [n for names in LAYERS for n in names if members(n)])
def test_the_page_on_the_architecture_names_what_lies_in_a_room(room: str) -> None:
    lines = iter(architecture().splitlines())
    next((line for line in lines if line == f"| `{room}` | subject |"), None)
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines))[1:]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    found = {name: fnmatch.filter(members(room), name) for name in named}
    once = Counter(member for matched in found.values() for member in matched)
    problems = {
        "name these": sorted(members(room) - set(once)),
        "take these out, they are gone": [name for name, matched in found.items() if not matched],
        "name these once": sorted(member for member, times in once.items() if times > 1),
    }
    wrong = {remedy: names for remedy, names in problems.items() if names}
    assert not wrong, f"docs/architecture.md, table of `{room}`"


def test_an_import_is_seen_wherever_it_stands() -> None:
    code = (
        "import scenewright.core.facts\ndef f():\n    from scenewright.core import scene, nothing\n"
    )
    seen = list(imports(ast.walk(ast.parse(code))))
    assert seen == [("core.facts", 1), ("core.scene", 3), ("core", 3)]


def test_nothing_in_the_package_is_left_for_later() -> None:
    found = [
        f"{path.relative_to(ROOT)}, line {number}: {line.strip()}"
        for path in package_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert not found


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("prompts/*.md")), ids=lambda path: path.stem)
def test_every_prompt_loads_and_takes_what_it_declares(path: Path) -> None:
    prompt = load_prompt(path.stem)
    text = prompt.render(**{name: f"<{name} given>" for name in prompt.variables})
    assert all(f"<{name} given>" in text for name in prompt.variables)


def test_there_are_prompts() -> None:
    assert list(PACKAGE.glob("prompts/*.md"))


def test_importing_the_package_loads_no_model_library() -> None:
    code = "import sys, scenewright; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "scenewright" in loaded
    assert not loaded & {"torch", "diffusers", "transformers", "langgraph", "scipy"}


def test_langgraph_json_points_at_graphs_that_compile() -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))["graphs"]
    assert graphs
    for place in graphs.values():
        file, _, name = place.partition(":")
        assert (ROOT / file).is_file(), place
        module = Path(file).with_suffix("").as_posix().removeprefix("./").replace("/", ".")
        builder = getattr(importlib.import_module(module), name)
        graph = builder() if callable(builder) else builder
        assert graph.compile().get_graph().nodes


def test_the_readme_begins_with_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("```")[1]
    assert "make demo" in block
    assert "make test" in block


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the documentation site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda path: path.name
)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8"))
    assert [link for link, _ in links if not (path.parent / link).exists()] == []
    pages = [((path.parent / link).resolve() if link else path, anchor) for link, anchor in links]
    wrong = [
        f"{page.name}#{anchor}"
        for page, anchor in pages
        if anchor and page.suffix == ".md" and anchor not in anchors(page)
    ]
    assert not wrong


def test_every_page_is_in_the_navigation_of_the_site_and_they_are_few() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", navigation, re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages)
    assert len(pages) <= MAX_PAGES, "merge pages of one subject"
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page for page in pages - {"index.md"} if f"]({page})" not in index] == []


def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    mkdocs = ROOT / ".venv-docs" / "bin" / "mkdocs"
    if not mkdocs.exists():
        pytest.skip("the documentation generator is not set up: make docs")
    done = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert "repair what is missing" in reference
    architecture = (tmp_path / "site" / "architecture.html").read_text(encoding="utf-8")
    assert "assets/mermaid.min.js" in architecture
    assert (tmp_path / "site" / "assets" / "mermaid.min.js").is_file()


def test_the_profiles_in_the_docs_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / SETTINGS_FILE).write_text("\n".join(examples), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    profiles = load_profiles(settings)
    assert set(settings.profiles) == {"mine", "kitchen", "sketches"}
    assert settings.profile == "mine"
    assert profiles["mine"].backend.model == "/models/my-finetune"
    assert profiles["mine"].backend.adapter == BUILT_IN["sdxl"].backend.adapter
    assert profiles["kitchen"].judges == BUILT_IN["sd15"].judges
    assert profiles["sketches"].backend.quality == "low"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_docs_tell_of_every_profile(name: str) -> None:
    assert f"| `{name}`" in (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", sorted({*Settings.model_fields, *Profile.model_fields} - {"name", "about", "profiles"})
)
def test_the_docs_tell_of_every_setting(name: str) -> None:
    page = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    assert re.search(rf"`{name}`|^{name} =|\.{name}\]", page, re.MULTILINE)


@pytest.mark.parametrize(
    "target", ["demo", "test", "lint", "format", "bench", "docs", "help", "clean"]
)
def test_the_makefile_has_the_target_and_says_what_it_does(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE)


def test_the_ci_script_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)


def test_every_requirement_is_pinned_to_a_version_it_allows() -> None:
    extras = project()["optional-dependencies"]
    # The extra of inspect_ai has an environment of its own.
    beside = extras.pop("inspect")
    # So has the documentation generator.
    site = extras.pop("docs")
    # That of quantisation is not installed by `make setup`.
    extras.pop("quantization")
    wanted = [*project()["dependencies"], *(line for extra in extras.values() for line in extra)]
    # The extra for development names others.
    wanted = [line for line in wanted if not line.startswith("scenewright[")]
    files = {"constraints.txt": wanted, "scripts/inspect.txt": beside, "scripts/docs.txt": site}
    for file, lines in files.items():
        pins = pins_of(file)
        for requirement in map(Requirement, lines):
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def pins_of(file: str) -> dict[str, str]:
    """Name → the exact version that a file of requirements pins."""
    pins = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            assert re.fullmatch(r"\d+(\.\w+)*", version), f"{line!r} is no exact public version"
            pins[canonicalize_name(name)] = version
    return pins


def test_every_library_that_is_imported_is_a_dependency() -> None:
    provided = {
        "PIL": "pillow", "spellchecker": "pyspellchecker", "yaml": "pyyaml",
        "google": "google-genai", "opentelemetry": "opentelemetry-sdk", "psycopg_pool": "psycopg",
    }  # fmt: skip
    extras = project()["optional-dependencies"]
    shipped = [name for name in extras if name not in ("dev", "docs")]
    wanted = [*project()["dependencies"], *(line for name in shipped for line in extras[name])]
    declared = {canonicalize_name(Requirement(line).name) for line in wanted}
    # What a declared one shows as part of itself; and pytest, which loads its plugin by itself.
    declared |= {"pydantic-core", "click", "pytest"}
    used = {
        name.partition(".")[0]
        for module in modules()
        for node in import_statements(module)
        for name in (names_of(node) if isinstance(node, ast.Import) else [node.module or ""])
    } - {*sys.stdlib_module_names, "scenewright"}
    assert {n for n in used if canonicalize_name(provided.get(n, n)) not in declared} == set()


def test_git_ignores_no_file_that_must_ship() -> None:
    # Hatchling leaves out what git ignores.
    ignored = git("ls-files", "--others", "--ignored", "--exclude-standard", "scenewright")
    assert [path for path in ignored if "__pycache__" not in path] == []


def test_no_large_file_is_tracked_but_weights() -> None:
    large = {
        path: size
        for path in git("ls-files")
        if (ROOT / path).is_file()
        and WEIGHTS not in (ROOT / path).parents
        and (size := (ROOT / path).stat().st_size) > MAX_BYTES
    }
    assert not large


def test_no_tracked_page_names_a_path_of_one_machine() -> None:
    private = re.compile(r"(?<![\w.])/(?:" + "|".join(["work", "root", r"home/\w+"]) + ")/")
    found = [
        path
        for path in git("ls-files")
        if (ROOT / path).suffix in TEXT | {".json", ".txt", ".yaml", ".yml", ""}
        and (ROOT / path).is_file()
        and WEIGHTS not in (ROOT / path).parents
        and private.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    ]
    assert not found
