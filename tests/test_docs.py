"""Every example in the documents runs, and every link between them leads somewhere.

A page's blocks run in order, in a folder and a store of the page's own:

- `python`: executed, all of a page in one namespace
- `text` after it: what it printed
- `console`: each line after `$` is run, the lines below it are its output; `brain serve ... &`
  serves until the end of the page, on a free port in place of the page's, and `brain worker &`
  works as long. A page about Ollama has an endpoint of its protocol, one about Redis a server

What differs from run to run is matched by its form: an id stands for one id throughout a page, a
date for any date, a number with two decimals or more for any such number, a count of tokens for any
count, and `...` for anything. A block that cannot run says why in the line above it:
`<!-- not run: needs Claude Code -->`.

Pages with the URL of a store in Postgres run in `test_postgres_docs.py` of the server package.
"""

import html
import os
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import filter as matching
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from urllib.parse import unquote

import pytest
from _pytest.mark.structures import ParameterSet
from commonbrain_server.settings import ServerSettings, TokenSettings
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sybil.example import SybilFailure

from commonbrain.config import Settings
from commonbrain.embeddings.interface import Embedder, LocalModel
from commonbrain.runtime.models import make_embedder
from tests.command_lines import run_here
from tests.laid_out_stores import lay_out_store
from tests.pages import VARIABLE, run_page

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "reference" / "generated"
PAGES = [
    ROOT / "README.md",
    ROOT / "INSTALL_FOR_AGENTS.md",
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if GENERATED not in page.parents),
]
PARTS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "adapters": ["use-with-*"],
        "causes": ["extract-causes"],
        "distributed": ["shard-by-tenant"],
        "evals": ["evaluate-*"],
        "import": ["import-*"],
        "learn": ["learning", "train-a-reranker"],
        "models": ["change-the-embedding-model", "choose-an-embedding-model", "rerank-*"],
        "server": [
            *("call-a-server-from-code", "manage-access", "run-a-server", "set-up-a-team"),
            *("migrate-to-postgres", "operate", "read-from-replicas", "run-on-postgres"),
        ],
    }
)
"""The pages whose examples run with a part of the suite; those of all others run with the core."""
CORE_PAGES = ["import-markdown-memories"]
"""Pages of the core whose names look like those of a part."""
ABOUT_POSTGRES = [page for page in PAGES if "postgresql://" in page.read_text()]
PICTURES = {".png", ".svg", ".jpg", ".gif", ".webp"}
DEFAULT_ROW = re.compile(
    r"^\| `COMMONBRAIN_([A-Z_]+)`[^|]*\| ([\d.,]+|`\w+`) \|(?=[^|]+\|$)", re.MULTILINE
)
"""A row of a table of settings with the columns setting, default and effect."""


RATE = re.compile(
    r"(?:request|call|recall|querie|write|remember)s?(?:/s| (?:a|per) second)\b"
    r"|\d (?:a|per) second\b"
)
"""A rate of a server, with or without its number."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def part_of(page: Path) -> str:
    for part, names in PARTS.items():
        if page.stem not in CORE_PAGES and any(fnmatch(page.stem, name) for name in names):
            return part
    return "core"


def with_part(page: Path) -> ParameterSet:
    return pytest.param(page, marks=pytest.mark.part(part_of(page)), id=name_of(page))


@pytest.fixture(scope="session")
def warm_model() -> Embedder:
    """The default embedder, which every store that this process opens shares while it is held."""
    embedder = make_embedder(Settings())
    assert isinstance(embedder, LocalModel)
    embedder.load()
    return embedder


@pytest.fixture
def page_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with an empty store, and a terminal of the width that pages are written in.

    The length of its path is the same in every run, so that tables wrap where they always do.
    """
    with TemporaryDirectory(dir=memory_folder()) as folder:
        set_up_page(Path(folder), monkeypatch)
        yield Path(folder)


def memory_folder() -> str | None:
    return os.environ.get("PYTEST_DEBUG_TEMPROOT")


def set_up_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    lay_out_store(folder / "brain.db")
    monkeypatch.setenv("COMMONBRAIN_STORE", str(folder / "brain.db"))
    monkeypatch.setenv("COMMONBRAIN_STATE", str(folder / "state"))
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ada")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(folder))
    for hook in ("START", "PROMPT", "EDIT"):
        # How long the machine of the tests takes is not what the pages are about.
        monkeypatch.setenv(f"COMMONBRAIN_HOOK_{hook}_TIMEOUT_S", "50")
    # Hooks of the pages start no process, which would outlive them.
    monkeypatch.setenv("COMMONBRAIN_MCP_SHARED", "off")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.mark.usefixtures("warm_model", "page_folder")
@pytest.mark.parametrize("page", [with_part(page) for page in PAGES if page not in ABOUT_POSTGRES])
def test_examples_of_page_run_and_give_the_shown_output(page: Path) -> None:
    run_page(page)


def test_every_pattern_of_a_part_names_a_page() -> None:
    stems = [page.stem for page in PAGES]
    patterns = [name for names in (*PARTS.values(), CORE_PAGES) for name in names]
    assert [name for name in patterns if not matching(stems, name)] == []


def test_links_to_files_lead_to_files_and_headings(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        for target in targets(page):
            with subtests.test(page=name_of(page), target=target):
                path, _, anchor = target.partition("#")
                linked = (page.parent / unquote(path)).resolve() if path else page
                assert linked.exists()
                assert not anchor or anchor in anchors(linked)


def test_rate_of_a_server_is_only_in_the_section_that_gives_its_condition() -> None:
    sections = [
        f"{name_of(page)}: {section.partition(chr(10))[0]}"
        for page in PAGES
        for section in re.split(r"^(?=## )", page.read_text("utf-8"), flags=re.MULTILINE)
        if RATE.search(" ".join(section.split()))
    ]
    assert sections == ["docs/explanation/sizing.md: ## Capacity"], "link to it instead"


@pytest.mark.requirement("DO-23")
def test_every_picture_is_made_by_one_command() -> None:
    recipes = (ROOT / "justfile").read_text()
    recipe = recipes.partition("\npictures:")[2].partition("\n\n")[0]
    programs = [(ROOT / name).read_text() for name in re.findall(r"\S+\.py\b", recipe)]
    sources = "\n".join([recipes, *programs])
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in targets(page)
        if Path(target).suffix in PICTURES
    }
    assert {path.name for path in shown if path.name not in sources} == set()
    stored = {path for path in (ROOT / "docs").rglob("*") if path.suffix in PICTURES}
    assert stored - shown == set(), "no page shows them"


@pytest.mark.usefixtures("warm_model")
def test_picture_of_the_readme_shows_the_output_of_its_commands(tmp_path: Path) -> None:
    name = "first-light.svg"
    maker = ROOT / "docs" / "images" / "make.py"
    draw = runpy.run_path(str(maker))["main"]
    draw(tmp_path / name, run_words=output_of)
    drawn, stored = (
        # Lengths of lines depend on counts of tokens.
        re.sub(VARIABLE, "?", re.sub(r"<[^>]+>", "\n", html.unescape(text)).replace("\xa0", " "))
        for text in ((tmp_path / name).read_text(), maker.with_name(name).read_text())
    )
    assert drawn == stored, "run `just pictures`"


def test_drawing_of_the_packages_has_all_packages() -> None:
    drawing = (ROOT / "docs" / "images" / "packages.svg").read_text()
    paths = (ROOT / "src" / "commonbrain").glob("[!_]*")
    packages = {path.stem for path in paths if path.is_dir() or path.suffix == ".py"}
    assert set(re.findall(r"<title>\.(\w+)</title>", drawing)) - {"__main__"} == packages, (
        "run `just pictures`"
    )


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached:
            reached.add(page)
            linked = (
                (page.parent / target.partition("#")[0]).resolve() for target in targets(page)
            )
            ahead += [path for path in linked if path.suffix == ".md" and path.exists()]
    assert set(PAGES) <= reached


def test_defaults_in_tables_are_those_of_the_settings(subtests: pytest.Subtests) -> None:
    for page in PAGES:
        for name, default in DEFAULT_ROW.findall(page.read_text()):
            with subtests.test(page=name_of(page), name=name):
                field = (
                    ServerSettings.model_fields[name.removeprefix("SERVE_").lower()]
                    if name.startswith("SERVE_")
                    else (Settings.model_fields | TokenSettings.model_fields)[name.lower()]
                )
                shown = default.replace(",", "").strip("`")
                assert type(field.default)(shown) == field.default


@pytest.mark.usefixtures("page_folder")
def test_wrong_page_fails_with_a_reason(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for page, reason in (
        ("```console\n$ brain recall x\nSomething.\n```\n", "Nothing is stored"),
        ("```console\n$ brain recall --no-such\n...\n```\n", "exit 2"),
        ("```console\n$ ls\n```\n", "only brain"),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "it says"),
        ("```sh\nls\n```\n", "console"),
        ("<!-- not run -->\n```console\n$ brain serve\n```\n", "reason"),
        ("<!-- not run: lost -->\n\nNo block.\n", "no block"),
    ):
        with subtests.test(page=page):
            wrong = tmp_path / "page.md"
            wrong.write_text(page)
            with pytest.raises((AssertionError, SybilFailure), match=reason):
                run_page(wrong)


def output_of(words: Sequence[str]) -> str:
    return run_here(words)[0]


def targets(page: Path) -> list[str]:
    """List the links and pictures of a page that lead to files."""
    links = (
        str(token.attrs.get("href") or token.attrs.get("src"))
        for token in tokens(page)
        if token.type in {"link_open", "image"}
    )
    return [target for target in links if "://" not in target]


def anchors(page: Path) -> set[str]:
    """List the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#{1,6} (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def tokens(page: Path) -> Iterator[Token]:
    for block in MarkdownIt().enable("table").parse(page.read_text()):
        yield block
        yield from block.children or ()
