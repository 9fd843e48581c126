"""MEMORY.md, CLAUDE.md and other notes in Markdown: a section becomes one memory or several.

Each memory stands alone: its first line names the headings above it. Its headline is the nearest
heading, if that is a short topic, followed by the first words of its own, so that memories under
one heading can be told apart in a list; its kind follows from its words, or else from the heading.
What the write gate would not accept as one statement is stored as an event, which may have any
content.
"""

import hashlib
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from commonbrain.ingestion.validation import Rejection, validate
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import NAME_CHARS_MAX, SOURCE_REF_CHARS_MAX, TEXT_BYTES_MAX
from commonbrain.model.memory import Draft
from commonbrain.text.classification import classify, severity_of
from commonbrain.text.headlines import derive_headline
from commonbrain.transfer.importer import (
    Found,
    Piece,
    Unreadable,
    file_found,
    files_found,
)

if TYPE_CHECKING:
    from markdown_it.token import Token


_LEVEL_MAX: Final = 4
"""Deeper headings stay in the text of their section."""
_HEADING_CHARS_MAX: Final = 120
"""A longer one is a paragraph that happens to be underlined; it stays in the text."""
_LINE_ENDS: Final = re.compile(r"\r\n?")
_YAML_LINE: Final = re.compile(r"\s*$|\s|#|-\s|[\w.-]+\s*:")
_CLOSING: Final = re.compile(r"(?:^|\s)#+\s*$")
"""The characters that may close a heading."""
_NOT_IN_LINKS: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Adjacent lines of one kind; `items` are those of a list, each with its nested lines."""

    text: str
    items: tuple[str, ...] = ()
    is_bulleted: bool = False
    is_item: bool = False


@dataclass(slots=True, kw_only=True)
class Section:
    """A heading, the headings above it, and the blocks up to the next heading."""

    path: tuple[str, ...]
    level: int
    slug: str
    """The heading as an anchor in Markdown links, unique in its file."""
    blocks: list[Block] = field(default_factory=list[Block])
    is_leaf: bool = True
    line_end: int = 0


def sections(text: str) -> Iterator[tuple[Section, float]]:
    """Return the sections of a file in order, each with its end as a share of the file, 0..1."""
    lines = _lines(text)
    outline = [Section(path=(), level=0, slug="")]
    taken: set[str] = set()
    for token, start, end in _top_level(lines):
        heading = _heading(token, lines[start:end])
        if token is None or heading is None:
            outline[-1].blocks += _blocks(token, lines[start:end])
        else:
            words, lines_taken = heading
            outline.append(_open_section(words, int(token.tag[1]), above=outline, taken=taken))
            outline[-1].blocks += _plain_text(lines[start + lines_taken : end])
        outline[-1].line_end = end
    for section in outline:
        yield section, section.line_end / len(lines)


def _lines(text: str) -> list[str]:
    """Split a text into the parser's lines, with front matter blanked."""
    lines = _LINE_ENDS.sub("\n", text).split("\n")
    past = front_matter_lines(lines)
    return [""] * past + lines[past:]


def front_matter_lines(lines: Sequence[str]) -> int:
    """Count the lines of a leading block between `---` that looks like YAML, fences included."""
    if lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return number + 1
        if not _YAML_LINE.match(line):
            return 0
    return 0


def block_tokens(lines: Sequence[str]) -> "Sequence[Token]":
    """Parse lines; the parser is imported here, as most commands start without it."""
    parser: Any = import_module("markdown_it").MarkdownIt("commonmark")
    return parser.enable("table").parse("\n".join(lines))


def _top_level(lines: Sequence[str]) -> Iterator[tuple["Token | None", int, int]]:
    """Return the tokens that open a top-level block, each with the lines up to the next one.

    Text before the first block that the parser reports belongs to a block without a token.
    """
    tokens_shown = [(one, one.map[0]) for one in block_tokens(lines) if one.level == 0 and one.map]
    blocks = (
        tokens_shown if tokens_shown and tokens_shown[0][1] == 0 else [(None, 0), *tokens_shown]
    )
    ends = [start for _, start in blocks[1:]] + [len(lines)]
    for (token, start), end in zip(blocks, ends, strict=True):
        yield token, start, end


def _heading(token: "Token | None", lines: Sequence[str]) -> tuple[str, int] | None:
    """Return the words and lines of a heading that begins a section."""
    if token is None or token.type != "heading_open" or int(token.tag[1]) > _LEVEL_MAX:
        return None
    is_underlined = token.markup in {"=", "-"}
    line_count = token.map[1] - token.map[0] if token.map else 1
    if is_underlined:
        marked = " ".join(lines[: line_count - 1])
    else:
        marked = _CLOSING.sub("", lines[0].strip().lstrip("#"))
    words = " ".join(marked.split())
    return (words, line_count) if words and len(words) <= _HEADING_CHARS_MAX else None


def _open_section(
    heading: str, level: int, *, above: Sequence[Section], taken: set[str]
) -> Section:
    """Open a section under the nearest previous one of a lower level."""
    parent = next(section for section in reversed(above) if section.level < level)
    parent.is_leaf = False
    slug = _slug(heading, taken)
    return Section(path=(*parent.path, heading), level=level, slug=slug)


def _slug(heading: str, slugs: set[str]) -> str:
    """Return the anchor of a heading, numbered from the second of the same text on."""
    plain = _NOT_IN_LINKS.sub("", heading.lower()).strip().replace(" ", "-") or "section"
    numbered = (f"{plain}-{number}" if number else plain for number in count())
    slug = next(one for one in numbered if one not in slugs)
    slugs.add(slug)
    return slug


def _blocks(token: "Token | None", lines: Sequence[str]) -> list[Block]:
    """Make a block of the lines that belong to this token."""
    plain = _plain_text(lines)
    if token is None or token.type not in {"bullet_list_open", "ordered_list_open"}:
        return plain
    is_bulleted = token.type == "bullet_list_open"
    items = tuple(_items(lines))
    return [replace(block, items=items, is_bulleted=is_bulleted) for block in plain]


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Split a list into its items, each with the lines up to the next one."""
    starts = [
        t.map[0]
        for t in block_tokens(lines)
        if t.type == "list_item_open" and t.level == 1 and t.map
    ]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield textwrap.dedent("\n".join(lines[start:end])).strip("\n").rstrip()


def _plain_text(lines: Sequence[str]) -> list[Block]:
    text = "\n".join(lines).strip("\n").rstrip()
    return [Block(text=text)] if text.strip() else []


STATEMENT_CHARS_MIN: Final = 20
"""A shorter text is a term, not a statement."""
_STATEMENTS_MIN: Final = 3
_WORDS_MAX: Final = 300
"""Leaves a hundred of the gate's 400 words for the headings."""
_LEAD_WORDS_MAX: Final = 40
_CUT_BYTES: Final = TEXT_BYTES_MAX - 2048
"""Leaves room for four headings of 120 characters, at four bytes each."""
_RUN_CHARS: Final = _CUT_BYTES // 4
"""A character takes at most four bytes, so this many always fit."""
_RUN: Final = re.compile(rf".{{1,{_RUN_CHARS}}}(?!\S)|.{{1,{_RUN_CHARS}}}")
"""As much of a line as fits, up to the end of a word if there is one."""
_EMPTY_TEXT: Final = re.compile(r"[\s\-*_]*")
"""Empty lines and horizontal rules."""
_BULLET: Final = re.compile(r"\s*[-*+][ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The text of one memory; `lead` is the paragraph that introduces its list."""

    words: str
    lead: str = ""


def split_blocks(blocks: Sequence[Block]) -> Iterator[Text]:
    """Split the blocks of a section, in order; only bullets and horizontal rules are dropped."""
    waiting: list[Block] = []
    for block in blocks:
        if not _is_statements(block):
            waiting.append(block)
            continue
        lead = waiting.pop().text if waiting and _is_lead(waiting[-1]) else ""
        yield from _pack_blocks(waiting)
        waiting.clear()
        for item in block.items:
            yield from (Text(words=part, lead=lead) for part in split_text(_strip_bullet(item)))
    yield from _pack_blocks(waiting)


def _is_statements(block: Block) -> bool:
    if not block.is_bulleted or len(block.items) < _STATEMENTS_MIN:
        return False
    return median(len(_strip_bullet(item)) for item in block.items) >= STATEMENT_CHARS_MIN


def _is_lead(block: Block) -> bool:
    is_plain = not block.items and not block.text.startswith(("```", "~~~"))
    return is_plain and block.text.endswith(":") and _words(block.text) <= _LEAD_WORDS_MAX


def _strip_bullet(item: str) -> str:
    """Remove the bullet of an item, and the same indentation from its other lines."""
    first, _, rest = _BULLET.sub("", item, count=1).partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}".strip()


def _pack_blocks(blocks: Sequence[Block]) -> Iterator[Text]:
    """Join neighbouring blocks as long as they are short enough together."""
    pending: list[Block] = []
    for unit in _split_long_lists(blocks):
        if pending and sum(_words(one.text) for one in pending) + _words(unit.text) > _WORDS_MAX:
            yield from map(_token_text, split_text(_join_blocks(pending)))
            pending.clear()
        pending.append(unit)
    yield from map(_token_text, split_text(_join_blocks(pending)))


def _split_long_lists(blocks: Sequence[Block]) -> Iterator[Block]:
    """Replace a list that is too long for one memory by its items."""
    for block in blocks:
        if block.items and _words(block.text) > _WORDS_MAX:
            yield from (Block(text=item, is_item=True) for item in block.items)
        else:
            yield block


def _join_blocks(blocks: Iterable[Block]) -> str:
    text, was_item = "", False
    for block in blocks:
        gap = "\n" if block.is_item and was_item else "\n\n"
        text = f"{text}{gap}{block.text}" if text else block.text
        was_item = block.is_item
    return text


def _token_text(words: str) -> Text:
    return Text(words=words)


def split_text(text: str) -> Iterator[str]:
    """Split a text too long for one memory between lines, and too long a line between words."""
    pending: list[str] = []
    size = 0
    for line in _short_lines(text):
        bytes_more = len(line.encode("utf-8", "replace")) + 1
        if pending and size + bytes_more > _CUT_BYTES:
            yield "\n".join(pending)
            pending, size = [], 0
        pending.append(line)
        size += bytes_more
    if not _EMPTY_TEXT.fullmatch("".join(pending)):
        yield "\n".join(pending)


def _short_lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from _RUN.findall(line) if len(line) > _RUN_CHARS else [line]


def _words(text: str) -> int:
    return len(text.split())


_DIGEST_CHARS: Final = 16
"""Enough of a digest to distinguish two long names with the same beginning."""


def source_reference(source: str, place: str) -> str:
    """Join a source and a place in it as `source#place`, shortened if too long."""
    return _shortened(f"{source}#{place}" if place else source, SOURCE_REF_CHARS_MAX)


def name(text: str) -> str:
    """Shorten a project, tag or speaker to the maximum length of names."""
    return _shortened(text, NAME_CHARS_MAX)


def _shortened(text: str, chars_max: int) -> str:
    """Truncate a text and append a digest of the whole, because truncation alone is ambiguous."""
    if len(text) <= chars_max:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[: chars_max - _DIGEST_CHARS - 1]}~{digest}"


_SKIPPED: Final = frozenset({"node_modules"})
"""Folders of other people's texts; hidden ones, such as .git, are skipped as well."""
_FLATTENED_CHARS: Final = re.compile(r"[^A-Za-z0-9]")
"""Claude Code names a project's folder by its path, with a dash for each of these."""


def markdown_files(root: Path) -> Iterator[Path | Unreadable]:
    """Return the files below a folder in the order of their paths, each once, following links.

    A link that leaves the folder is reported but not followed: the user did not offer what is
    there.
    """
    yield from _Walk(root=root, real=root.resolve()).below(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """One walk, with the real paths it has seen, so that links cannot form a cycle."""

    root: Path
    real: Path
    seen: set[Path] = field(default_factory=set[Path])

    def below(self, folder: Path) -> Iterator[Path | Unreadable]:
        self.seen.add(folder.resolve())
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 names sort alike on every system
        except OSError as error:
            yield self._unreadable(folder, f"The folder cannot be opened: {error.strerror}.")
            return
        for name in names:
            yield from self._at(folder / name)

    def _at(self, path: Path) -> Iterator[Path | Unreadable]:
        is_folder = path.is_dir()
        if is_folder and (path.name.startswith(".") or path.name in _SKIPPED):
            return
        if not is_folder and path.suffix.lower() != ".md":
            return
        real = path.resolve()
        if real in self.seen:
            return
        if not real.is_relative_to(self.real):
            yield self._unreadable(path, "It is a link that leaves the folder.")
        elif is_folder:
            yield from self.below(path)
        elif path.is_file():
            self.seen.add(real)
            yield path
        else:
            yield self._unreadable(path, "It is not a file.")

    def _unreadable(self, path: Path, reason: str) -> Unreadable:
        return Unreadable(where=path.relative_to(self.root).as_posix(), reason=reason)


def project_of(file: Path) -> str | None:
    """Return the project of a file: by Claude Code's folder, or by the repository.

    A file under `.claude/projects/<path with dashes>/` belongs to the folder of that path; one in a
    repository (the nearest folder above with `.git`) to that repository; others to none.
    """
    above = file.absolute().parents
    for folder in above:
        if folder.parent.name == "projects" and folder.parent.parent.name == ".claude":
            return _resolve_flattened(folder.name)
    return next((folder.name for folder in above if (folder / ".git").exists()), None) or None


def _resolve_flattened(flat: str) -> str:
    """Find the folder of a flattened path, or return its part below the home folder.

    Flattening cannot be reversed (`my-app` and `my/app` look alike), so existing folders decide.
    """
    path = _match_below(Path(Path.home().anchor), flat.removeprefix("-"))
    if path is not None:
        return path.name
    home = _FLATTENED_CHARS.sub("-", str(Path.home())) + "-"
    return flat.removeprefix(home).strip("-") or flat


def _match_below(folder: Path, flat: str) -> Path | None:
    """Find the path below a folder that flattens to this, trying longer names first."""
    try:
        names = sorted(os.listdir(folder), key=len, reverse=True)  # noqa: PTH208 names are enough
    except OSError:
        return None
    for name in names:
        flattened = _FLATTENED_CHARS.sub("-", name)
        if flat == flattened and (folder / name).is_dir():
            return folder / name
        if flat.startswith(f"{flattened}-"):
            path = _match_below(folder / name, flat[len(flattened) + 1 :])
            if path is not None:
                return path
    return None


_TAG: Final = "memory-import"
_CONFIDENCE: Final = 0.7
"""Notes are written with care, but become outdated unnoticed."""
_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A file is parsed whole, which takes some fifty times its size; no notes are this long."""
_TOPIC_WORDS_MAX: Final = 5
"""A longer heading would leave no room in the headline for the statement."""


@dataclass(frozen=True, slots=True)
class MarkdownFolder:
    """Reads one Markdown file, or every `*.md` in a folder and its subfolders."""

    name: str = "markdown"
    purpose: str = "Notes in Markdown: MEMORY.md, CLAUDE.md and others"
    has_relations: bool = False

    def find(self, home: Path) -> Iterator[Found]:
        """Return the memory folders of Claude Code's projects and its notes for all projects."""
        claude = home / ".claude"
        for folder in sorted(claude.glob("projects/*/memory")):
            yield from files_found(folder, "**/*.md")
        yield from file_found(claude / "CLAUDE.md")

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Return the memories in the order of the files' paths.

        Raises:
            InvalidInputError: there is no such file, or no Markdown file in the folder; raised
                before the first piece.

        """
        files = note_files(source)
        sizes = [size_of(one) for one in files]
        bytes_total, bytes_before = max(sum(sizes), 1), 0
        for one, size in zip(files, sizes, strict=True):
            for content, fraction in _read(one, source, project=project):
                yield Piece(
                    content=content, progress=(bytes_before + fraction * size) / bytes_total
                )
            bytes_before += size


def note_files(source: Path) -> Sequence[Path | Unreadable]:
    """Return a file, or the Markdown files of a folder and what could not be opened in it.

    Raises:
        InvalidInputError: there is no such file, or none in the folder.

    """
    files = (
        [source] if source.is_file() else list(markdown_files(source)) if source.is_dir() else []
    )
    if not files:
        raise InvalidInputError(
            f"{source} is neither a file nor a folder with a Markdown file in it.",
            hint="Name a MEMORY.md or CLAUDE.md, or the folder above them.",
        )
    return files


def size_of(one: Path | Unreadable) -> int:
    """Return the bytes of a file; 0 for what cannot be read."""
    return one.stat().st_size if isinstance(one, Path) else 0


def _read(
    one: Path | Unreadable, source: Path, *, project: str | None
) -> Iterator[tuple[Draft | Unreadable, float]]:
    """Return the pieces of one file, each with the share of the file read so far."""
    if isinstance(one, Unreadable):
        yield one, 1.0
        return
    where = one.name if one == source else one.relative_to(source).as_posix()
    text = read_text(one, where)
    if isinstance(text, Unreadable):
        yield text, 1.0
        return
    about = project or project_of(one)
    context_fields = Draft(
        body="",
        project=name(about) if about else None,
        confidence=_CONFIDENCE,
        tags=(name(one.stem.lower()), _TAG),
        source_ref=where,
    )
    for section, fraction in sections(text):
        for content in section_drafts(section, context_fields):
            yield content, fraction


def read_text(file: Path, where: str) -> str | Unreadable:
    """Return the text of a file, or why there is none."""
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            reason = f"The file is larger than {_FILE_BYTES_MAX:,} bytes; split it."
            return Unreadable(where=where, reason=reason)
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return Unreadable(where=where, reason=f"It is not UTF-8 text, from byte {error.start} on.")
    except OSError as error:
        return Unreadable(where=where, reason=f"It cannot be read: {error.strerror}.")
    return text if text.strip() else Unreadable(where=where, reason="The file is empty.")


def section_drafts(section: Section, context_fields: Draft) -> Iterator[Draft | Unreadable]:
    """Make drafts of a section; a heading without text becomes a memory itself."""
    path, texts = section.path, list(split_blocks(section.blocks))
    own = " ".join([*path[-1:], *(text.words for text in texts)])
    if not texts and section.is_leaf and path:
        path, texts = path[:-1], [Text(words=path[-1])]
    for number, text in enumerate(texts, 1):
        place = f"{section.slug}:{number}" if len(texts) > 1 else section.slug
        where = source_reference(context_fields.source_ref or "", place)
        if len(own) < STATEMENT_CHARS_MIN:
            yield Unreadable(
                where=where,
                reason=f"shorter than {STATEMENT_CHARS_MIN} characters: "
                f"{_with_context(text, path)!r}",
            )
        else:
            yield _draft(replace(context_fields, source_ref=where), text, path=path)


def _draft(context_fields: Draft, text: Text, *, path: Sequence[str]) -> Draft:
    kind, severity = _classify(text, path)
    draft = replace(
        context_fields,
        body=_with_context(text, path),
        headline=_make_headline(text, path) or None,
        kind=kind,
        severity=severity,
    )
    match validate(draft):
        case Rejection():
            return replace(draft, kind=Kind.EVENT, severity=None)
        case _:
            return draft


def _with_context(text: Text, path: Sequence[str]) -> str:
    context = f"{' > '.join(path)}:" if path else ""
    return "\n".join(part for part in (context, text.lead, text.words) if part)


def _classify(text: Text, path: Sequence[str]) -> tuple[Kind, str | None]:
    """Choose the kind by the text's own words first, since a heading covers all below it."""
    classified = f"{text.lead}\n{text.words}"
    heading = path[-1] if path else ""
    deciding = classified if classify(classified) is not Kind.FACT else heading
    kind = classify(deciding)
    return kind, severity_of(deciding) if kind is Kind.RULE else None


def _make_headline(text: Text, path: Sequence[str]) -> str:
    topic = path[-1].rstrip(":.!?") if path else ""
    own = derive_headline(text.words)
    if not topic or len(topic.split()) > _TOPIC_WORDS_MAX or own.startswith(topic):
        return own
    joined = derive_headline(f"{topic}: {own}")
    # Otherwise only a heading that ends a sentence, such as `Why? Because`, would remain.
    return joined if joined.startswith(f"{topic}: ") else own
