"""The words that the project has retired; `python -m tests.test_vocabulary [PATH ...]` lists them.

A hit is a retired word in a name that the code defines, in a text that users see, in a docstring or
in the docs. Of tests, evaluations and benchmarks only names and docstrings count: their other texts
are data. The paths that can be given are files and folders; without any, all of them are searched.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

ROOT: Final = Path(__file__).parents[1]

REMAINING = 0
"""The hits that are left. It only falls: set it to the number that the failing test names."""

RETIRED: Final = frozenset(
    """
    tell tells told telling
    look looks looking
    beside besides aside behind
    keep keeps kept keeping keeper
    stand stands standing
    moment moments
    room house door doors shelf shelves
    weigh weighs weighed weighty
    foretold foresee foreseen foresees rehearse rehearsal
    gone fallen fell falls
    somebody nobody whom
    arm arms deed deeds course lacking unseated unsettled heritage
    duty duties owed parcel crowd patience chance swept
    wish wanted happening happenings knock knocks
    seat seats seating mend mended mending spare spares spared
    bury hasten doubt unasked premise verdict
    """.split()
)
"""Words that no name may contain, between underscores or CamelCase humps."""

RETIRED_ALONE: Final = frozenset({"asked", "found", "said"})
"""Names for which there is a noun (text, query, matches); fine as a part, as in `asked_at`."""

RETIRED_IN_PROSE: Final = (
    r"beside|besides|somebody|nobody|whom"
    r"|foretold|foresee|foresees|foreseen|rehearse|rehearsal"
    r"|room|house|doors?|shelf|shelves|weighty|deeds?|heritage"
    r"|unseated|unsettled|unasked|lacking|owed|parcel|hasten"
    r"|knocks?|seats?|seating|mend|mended|mending|spares|spared|happenings?"
    r"|(?-i:arms?)"  # ARM is also a processor
    r"|(?:am|are|be|been|being|is|was|were) told(?! apart)|(?:tell|tells|told|telling) of"
    r"|in earnest|what (?:shows|fell|falls)(?: of)?"
)
"""Words and phrases that are wrong in every text of ours.

Left out are retired names that are ordinary English in a sentence: tell, look, keep, stand, moment,
behind, aside, gone, fell, course ("of course"), duty, chance, crowd, patience, swept, wish, wanted,
bury, doubt, spare, said, asked, found; and `verdict` and `premise`, which the specification uses.
"""

ALLOWED: Final = {
    "asked": "field of a trace's result",
    "behind_bytes": "field of a replica's health",
    "door": "column of the table of tool events",
    "fall": "column of the table of invalidations",
    "falls": "table of invalidations",
    "found": "field of the stored record of an evaluation",
    "keep_both": "action on the wire",
    "kept": "field of a restore's result",
    "nobody": "system account, and a word that recall understands in texts",
    "parcel": "key of a stored job's arguments",
    "told": "column of the table of recalls",
    "verdict": "field of a recall's reply, and column of the table of recalls",
}
"""Names of the database and the wire that stay, with what they are.

They may be fields of a class, members of an enum, arguments, or strings of their own. A function, a
class, a module or a variable has no reason to bear them.
"""

WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
ANY_RETIRED: Final = (
    RETIRED
    | RETIRED_ALONE
    | {*re.findall(r"[a-z]+", RETIRED_IN_PROSE)}
    - {*"i am are be been being is was were apart in of what".split()}
)
"""The words of which a file with a hit has at least one; the phrases also have common words."""
PROSE: Final = re.compile(rf"(?<![\w-])(?:{RETIRED_IN_PROSE})(?![\w-])", re.IGNORECASE)
# A pattern or a statement is no text of ours: what it looks for comes from users or the database.
NO_TEXT: Final = re.compile(
    r"\\[bswdB]|\(\?|\b(?:SELECT|INSERT INTO|DELETE FROM|CREATE|ALTER|DROP|UPDATE \w+ SET)\b"
)
CODE_SPANS: Final = re.compile(r"`[^`\n]*`")
LEFT_OUT: Final = {"node_modules", "generated", "data", "samples"}
WITHOUT_TEXTS: Final = ("tests", "packages/*/tests", "benchmarks", "packages/commonbrain-evals/src")
"""Folders in which a string that is no docstring is data."""
LIST_MIN: Final = 4
"""From so many single words on, a collection of strings is a word list and not a text."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
NAMING: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.arg, ast.Name, ast.Attribute, ast.alias, ast.ExceptHandler),
)
"""The nodes that give names."""
READ: Final = (*NAMING, ast.Expr, ast.Constant, ast.Call, ast.Set, ast.Tuple, ast.List)


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    path: Path
    line: int
    word: str
    """The retired word or phrase, in lower case."""
    place: str
    """The name or the line of text that contains it."""

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word}: {self.place}"


def find_retired(paths: Iterable[Path] = ()) -> list[Hit]:
    """List the hits in the given files and folders, or everywhere; each once a line."""
    given = [path.resolve() for path in paths]
    searched = [
        path
        for path in (*_sources(), *_pages())
        if not given or any(path.is_relative_to(one) for one in given)
    ]
    return sorted({hit for path in searched for hit in _hits(path)})


def _sources() -> Iterator[Path]:
    for folder in ("src", "packages/*/src", *WITHOUT_TEXTS):
        for path in sorted(ROOT.glob(f"{folder}/**/*.py")):
            if not LEFT_OUT & set(path.parts):
                yield path


def _pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("docs", "packages", "plugins", "src", "deploy", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.md")):
            if not LEFT_OUT & set(path.parts) and not any(p.startswith(".") for p in path.parts):
                yield path


def _hits(path: Path) -> Iterator[Hit]:
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from _hits_of_page(path, text)
        return
    is_data = any(path.is_relative_to(place) for name in WITHOUT_TEXTS for place in ROOT.glob(name))
    if path.stem != "__init__":
        yield from _hits_of_name(path, 1, path.stem)
    elif not is_data:
        # Folders of tests are named in other files, and move later.
        yield from _hits_of_name(path, 1, path.parent.name)
    # Most files have no such word and need not be parsed. A `\n` is no letter of the next word.
    words = {word.lower() for word in {*WORDS.findall(text.replace("\\n", " "))}}
    if not words & ANY_RETIRED:
        return
    nodes = _nodes(ast.parse(text))
    for line, name, may_be_allowed in _names(nodes):
        # A table of the schema has a variable of its name.
        is_table = "schema" in path.parts
        if not ((may_be_allowed or is_table) and name.lower() in ALLOWED):
            yield from _hits_of_name(path, line, name)
    lines = text.splitlines()
    for node, value in _docstrings(nodes) if is_data else _texts(nodes):
        yield from _hits_of_text(path, node, value, lines)


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """List the nodes that the searches read, in less than half the time of `ast.walk`."""
    walked: list[ast.AST] = [tree]
    read: list[ast.AST] = []
    for node in walked:
        if isinstance(node, READ):
            read.append(node)
        for value in vars(node).values():
            if isinstance(value, list):
                walked += [
                    item for item in cast("list[object]", value) if isinstance(item, ast.AST)
                ]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                walked.append(value)
    return read


def _hits_of_name(path: Path, line: int, name: str) -> Iterator[Hit]:
    # Write-behind and keep-alive are the field's own terms.
    name = re.sub(r"(?i)write_?behind|keep_?alive", "queue", name)
    words = {word.lower() for word in WORDS.findall(name)}
    for word in words & RETIRED:
        yield Hit(path, line, word, name)
    if name.strip("_") in RETIRED_ALONE:
        yield Hit(path, line, name.strip("_"), name)


def _names(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str, bool]]:
    """Give the line and name of what is defined, and whether it may be in ALLOWED."""
    fields = {
        id(target)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.Assign | ast.AnnAssign)
        for target in (item.targets if isinstance(item, ast.Assign) else [item.target])
    }
    for node in nodes:
        if not isinstance(node, NAMING):
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                # `Brain.revise.keep_both` is called as its action is.
                yield node.lineno, node.name, node.name == "keep_both"
            case ast.arg():
                yield node.lineno, node.arg, True
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id, id(node) in fields
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr, False
            case ast.alias(asname=str() as name):
                yield node.lineno, name, False
            case ast.ExceptHandler(name=str() as name):
                yield node.lineno, name, False
            case _:
                pass


def _texts(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Give the strings that users can see: docstrings of public names, and all but data."""
    hidden = _hidden(nodes)
    for node in nodes:
        match node:
            case ast.Constant(value=str() as value) if id(node) not in hidden:
                if value not in ALLOWED and not NO_TEXT.search(value):
                    yield node, value
            case _:
                pass


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as value):
                yield value, text
            case _:
                pass


def _hidden(nodes: Sequence[ast.AST]) -> set[int]:
    """Identify the strings that no user sees: docstrings of private names, and word lists."""
    shown = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, Definition)
        and not node.name.startswith("_")
        and isinstance(node.body[0], ast.Expr)
    }
    hidden: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant() as value) if id(value) not in shown:
                hidden.add(id(value))
            case ast.Call(func=ast.Attribute(value=ast.Constant() as value, attr="split")):
                hidden.add(id(value))
            case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
                if len(items) >= LIST_MIN and all(_is_word(item) for item in items):
                    hidden.update(map(id, items))
            case _:
                pass
    return hidden


def _is_word(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() as value):
            return " " not in value.strip()
        case _:
            return False


def _hits_of_text(path: Path, node: ast.Constant, value: str, lines: list[str]) -> Iterator[Hit]:
    for match in PROSE.finditer(value):
        word = re.sub(r"\s+", " ", match[0]).lower()
        # Parts of a string that spans lines do not say on which they are.
        last = node.end_lineno or node.lineno
        spanned = range(node.lineno, last + 1)
        line = next((at for at in spanned if word in lines[at - 1].lower()), node.lineno)
        yield Hit(path, line, word, lines[line - 1].strip())


def _hits_of_page(path: Path, text: str) -> Iterator[Hit]:
    for line, content in enumerate(text.splitlines(), start=1):
        # The changelog says what was renamed.
        searched = CODE_SPANS.sub("", content) if path.stem == "CHANGELOG" else content
        for match in PROSE.finditer(searched):
            yield Hit(path, line, match[0].lower(), content.strip())


def test_retired_words_only_become_fewer() -> None:
    hits = len(find_retired())

    assert hits <= REMAINING, "List the new ones: python -m tests.test_vocabulary PATH"
    assert hits >= REMAINING, f"Well done: set REMAINING in {Path(__file__).name} to {hits}"


def main(arguments: list[str]) -> None:
    hits = find_retired(map(Path, arguments))
    # One line a hit, then their number.
    sys.stdout.writelines(f"{hit}\n" for hit in hits)
    sys.stdout.write(f"{len(hits)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
