"""The names that an edit touches, and whether a text names one of them.

A name counts only in the spelling of code: a path, a file name, a folder with its slash, or a
symbol that no sentence contains by chance. Names that most folders have never count alone, and two
words with a slash, such as "client/server", are no path.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from commonbrain.model.limits import EDIT_CHARS_MAX, EDIT_SYMBOLS_MAX
from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern

COMMON_IN_CODE: Final = frozenset(
    # Files, folders and symbols.
    "index main utils util helpers helper common base types type constants config settings"
    " setup conf init mod lib app core test tests conftest readme changelog license package"
    " package-lock tsconfig cargo pyproject requirements server client models model views view"
    " routes router schema schemas api cli errors error exceptions style styles layout page"
    " manage admin urls data db database handlers handler services service middleware store"
    " state actions enums version variables outputs values deployment src apps docs doc bin"
    " build dist pkg packages internal cmd scripts tools include public static assets components"
    " home tmp var usr opt etc work project projects code repo repos workspace self"
    " args kwargs this true false none null teardown handle callback options params result value"
    " item items name get set run call open close read write start stop update create delete"
    " remove add list find load save render parse print format string number object array"
    " default export import return status context props request response message event count"
    " total names keys entry entries node text line lines file files path body query input"
    " output logger check validate process execute apply reset clear send receive connect next"
    " prev done fetch make show hide toggle select filter map repr enter exit tostring".split()
)
"""Names of files, folders and symbols that many projects have."""
_FILES_WITHOUT_EXTENSION: Final = frozenset(
    "makefile gnumakefile dockerfile containerfile jenkinsfile rakefile gemfile podfile procfile"
    " vagrantfile brewfile justfile caddyfile tiltfile earthfile fastfile pipfile snakefile"
    " codeowners".split()
)
"""Names that only a file has; others without an extension are words of any sentence."""
_ROOTS: Final = frozenset("src lib app apps test tests docs packages internal scripts".split())
"""Folders that make a path of two plain words with a slash between them."""
_SYMBOL_CHARS_MIN: Final = 4
_DEFINED: Final = lazy_pattern(
    r"^[ \t+-]*(?:@@ )?(?:(?:export|default|public|private|protected|static|async|abstract|final"
    r"|unsafe|pub|pub\(crate\)) )*(?:(?P<local>const|let|var)"
    r"|def|class|function|func|fn|struct|enum|trait|interface|type|module) +"
    r"(?:\([^()\n]{0,80}\) *)?(?P<name>[^\W\d]\w{2,79})"
    r"(?P<function> *= *(?:async +)?(?:\([^()\n]{0,200}\)|\w{1,80}) *=>| *= *function\b)?",
    re.MULTILINE,
)
"""A definition in common languages; Go's methods have a receiver in brackets."""
_CONSTANT: Final = lazy_pattern(
    r"^[ \t+-]*([A-Z][A-Z0-9_]{3,79})\b[^=\n]{0,80}=(?!=)", re.MULTILINE
)
_WORD: Final = lazy_pattern(r"(?<![\w])[^\W\d]\w{3,79}(?!\w)")
_HUMP: Final = lazy_pattern(r"[a-z0-9][A-Z]")
_PATCHED: Final = lazy_pattern(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,1000})$", re.MULTILINE
)
_TOKEN: Final = lazy_pattern(r"[^\s`'\"<>()\[\]{},;|*]{2,300}")
_PLACE: Final = lazy_pattern(r"(?<=.)(?:[#?][^/]*|:\d+(?:[-:]\d+)?)$")
"""A line, section or query after a path: "rules.py:42", "guide.md#install"."""
_SPAN: Final = lazy_pattern(r"`([^`\n]{1,200})`")
_CALLED: Final = lazy_pattern(r"([^\W\d]\w{2,79})\(")


class Naming(IntEnum):
    """How exactly a text names what an edit touches."""

    FOLDER = 1
    SYMBOL = 2
    FILE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedCode:
    """The files of an edit, relative to the project where possible, and symbols in its text."""

    files: tuple[str, ...]
    symbols: frozenset[str] = frozenset()
    """Names that the edit defines; those that it only uses are in too many edits."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every path by which a text may name a file or a folder of the edit."""
        return tuple(dict.fromkeys(one for file in self.files for one in _spellings(file)))

    @property
    def terms(self) -> tuple[str, ...]:
        """The words that a text contains if it names part of the edit."""
        parts = [part for file in self.files for part in _parts(file)]
        names = [parts[-1] for file in self.files if (parts := _parts(file))]
        folders = [part for part in parts if not _is_common(part)]
        return tuple(dict.fromkeys([*names, *folders, *sorted(self.symbols)]))


def read_edit(files: tuple[str, ...], text: str, *, folder: str = "") -> EditedCode:
    """Read the names of an edit; only the first `EDIT_CHARS_MAX` characters of it are read.

    Args:
        files: paths as the client gives them.
        text: what the edit replaces and writes.
        folder: the project's folder, which paths are shortened by.

    """
    part = text[:EDIT_CHARS_MAX]
    defined = [*_definitions(part), *map(str, _CONSTANT.findall(part))]
    symbols = [
        one
        for one in dict.fromkeys(defined)
        if len(one) >= _SYMBOL_CHARS_MIN and not _is_common(one)
    ]
    return EditedCode(
        files=tuple(dict.fromkeys(filter(None, (_relative(one, folder) for one in files)))),
        symbols=frozenset(symbols[:EDIT_SYMBOLS_MAX]),
    )


def _definitions(text: str) -> Iterator[str]:
    """List the names that a text defines, except variables whose name is a plain word."""
    for definition in _DEFINED.finditer(text):
        name = definition["name"]
        if not definition["local"] or definition["function"] or _is_code(name):
            yield name


def patched_files(patch: str) -> tuple[str, ...]:
    """Return the files that a patch of Codex changes."""
    return tuple(dict.fromkeys(path.strip() for path in map(str, _PATCHED.findall(patch))))


def naming_of(code: EditedCode, text: str) -> Naming | None:
    """Return how exactly a text names a file, symbol or folder of an edit; None if it does not."""
    tokens = list(dict.fromkeys(_path_tokens(text)))
    if any(_names_file(token, file) for file in code.files for token in tokens):
        return Naming.FILE
    if _names_symbol(code, text):
        return Naming.SYMBOL
    if any(_names_folder(token, file) for file in code.files for token in tokens):
        return Naming.FOLDER
    return None


def _relative(path: str, folder: str) -> str:
    plain = path.replace("\\", "/")
    base = folder.replace("\\", "/").rstrip("/")
    return plain[len(base) + 1 :] if base and plain.startswith(f"{base}/") else plain


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", ".", ".."}]


def _spellings(path: str) -> Iterator[str]:
    parts = _parts(path)
    for start in range(len(parts)):
        yield "/".join(parts[start:])
        for end in range(start + 1, len(parts)):
            yield "/".join(parts[start:end])
            yield "/".join(parts[start:end]) + "/"
    if path.startswith("/"):
        yield path


def _path_tokens(text: str) -> Iterator[str]:
    for token in map(str, _TOKEN.findall(text)):
        path = token.rstrip(".:!?").replace("\\", "/")
        plain = _PLACE.sub("", path).removeprefix("./")
        if "/" in plain or "." in plain or plain.casefold() in _FILES_WITHOUT_EXTENSION:
            yield plain


def _names_file(token: str, file: str) -> bool:
    named, own = _parts(token), _parts(file)
    if token.endswith("/") or not named or not own:
        return False
    if len(named) == 1 and named[0].casefold() in _FILES_WITHOUT_EXTENSION:
        return named[0].casefold() == own[-1].casefold()
    if named[-1] != own[-1] or not _is_path(token):
        return False
    if len(named) == 1:
        return "." in named[0] and not _is_common(named[0].lstrip(".").split(".")[0])
    shorter = min(len(named), len(own))
    # The path of another machine is longer than the one in the project.
    return shorter > 1 and named[-shorter:] == own[-shorter:]


def _is_path(token: str) -> bool:
    """Return whether a token is a name or a path, and not two words with a slash between them."""
    parts = token.split("/")
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004 two words
        return True
    is_word = (one.isalpha() or one.isdecimal() for one in parts)
    return parts[0] in _ROOTS or not all(is_word)


def _names_folder(token: str, file: str) -> bool:
    named, own = _parts(token), _parts(file)[:-1]
    if "/" not in token or not named or len(named) > len(own) or not _is_path(token):
        return False
    if len(named) == 1 and (_is_common(named[0]) or not token.endswith("/")):
        return False
    return any(own[at : at + len(named)] == named for at in range(len(own) - len(named) + 1))


def _names_symbol(code: EditedCode, text: str) -> bool:
    """Return whether a text writes a symbol; one that is a plain word, as code."""
    if not code.symbols:
        return False
    words = (one for one in map(str, _WORD.findall(text)) if _is_code(one))
    # In quotes, a plain word may be a command or a value; a class is written with a capital.
    classes = (one for one in map(str, _SPAN.findall(text)) if one[:1].isupper())
    return not code.symbols.isdisjoint({*words, *classes, *map(str, _CALLED.findall(text))})


def _is_code(word: str) -> bool:
    return "_" in word.strip("_") or _HUMP.search(word) is not None


def _is_common(name: str) -> bool:
    return name.casefold().strip("_") in COMMON_IN_CODE
