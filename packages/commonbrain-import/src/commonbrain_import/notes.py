"""Folders of linked notes: basic-memory and Obsidian.

The text of a note is split as in `markdown`. Its front matter also gives tags, a date and a
label, and its wiki links become links between memories. Where basic-memory writes them, a bullet
`- [category] text #tag (context)` is an observation, which becomes a memory of its own, and a
bullet `- relation [[Note]] (context)` a relation. The formats are those of basicmachines-co/
basic-memory (src/basic_memory/markdown/plugins.py and entity_parser.py, version 0.24) and of
Obsidian's help (obsidianmd/obsidian-help, Linking notes and files, Properties).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, kind_and_label
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.text.classification import classify
from commonbrain.text.quotations import block_tokens
from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    Importer,
    ImportItem,
    Meter,
    SourceRelation,
    Unreadable,
    files_found,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.importers.markdown import (
    note_files,
    read_text,
    section_drafts,
    size_of,
    text_digest,
)
from commonbrain.transfer.importers.sections import (
    Section,
    front_matter_lines,
    sections,
)
from commonbrain_import.graphs import about, edge_text, link_type
from commonbrain_import.rows import Row, about_entity, fitted, names_in, text_in, time_in

if TYPE_CHECKING:
    from markdown_it.token import Token

_HINT: Final = "Give the folder of the notes, or one .md file of it."
_FRONT_MATTER_CHARS_MAX: Final = 64 * 1024
"""Characters of front matter; a longer block is reported."""
_NULLS: Final = ("null", "~")
"""How YAML writes that a field has no value."""
_WIKI_LINK: Final = re.compile(r"\[\[([^\[\]|#^\n]{1,300})[^\[\]\n]{0,300}\]\]")
"""The note of a link; a heading, block or alias after it is not needed."""
_EMBEDS: Final = re.compile(r"(?:!\[\[[^\[\]\n]{1,600}\]\]\s*)+")
"""Files or notes that are shown in a place, and nothing else."""
_SUFFIX: Final = re.compile(r"\.(?!md$)[a-z0-9]{2,5}$", re.IGNORECASE)
"""How the name of a file ends that is no note; notes are named without a suffix."""
_OBSERVATION: Final = re.compile(r"\[([^\[\]()\n]{1,100})\]\s+(\S[^\n]*)", re.DOTALL)
_NO_CATEGORY: Final = re.compile(r"\W?|[xX]|[\d:.,\s\-]+")
"""The mark of a checkbox, or a time in a transcript."""
_RELATION: Final = re.compile(
    r"""(?:"([^"\n]{1,100})"|'([^'\n]{1,100})'|([^\s\[]{1,100}))\s*\[\[([^\[\]\n]{1,300})\]\]"""
    r"\s*(?:\(([^()\n]{0,500})\))?\s*"
)
_CONTEXT: Final = re.compile(r"^(.*\S)\s*\(([^()]*)\)$", re.DOTALL)
_HASHTAG: Final = re.compile(r"(?<!\S)#([^\s#]+)")
_GENERIC: Final = frozenset({"relates_to", "related_to", "links_to", "references", "see"})
"""Relations that say no more than the link does."""
_READ: Final = frozenset(
    {"title", "type", "permalink", "tags", "tag", "aliases", "alias", "created", "date"}
    | {"created_at", "modified", "updated"}
)
"""Fields of front matter that are used."""
_ICLOUD: Final = "Library/Mobile Documents/iCloud~md~obsidian/Documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFolder(Importer):
    """Reads a folder of notes that link to each other, or one of its files."""

    name: str
    purpose: str
    has_observations: bool
    """Whether bullets can be observations and relations."""
    folders: tuple[str, ...]
    """Patterns of the folders where it usually is, below the home folder."""
    has_relations: bool = True

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the folders at the usual places; a vault is known by its settings folder."""
        for pattern in self.folders:
            for folder in sorted(home.glob(pattern)):
                is_settings = folder.name == ".obsidian"
                yield from files_found(folder.parent if is_settings else folder, "**/*.md")

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the memories in the order of the files' paths, then the links between them.

        Raises:
            InvalidInputError: there is no such file, or no Markdown file in the folder; raised
                before the first piece.

        """
        if source.is_file() and source.suffix.lower() != ".md":
            raise InvalidInputError(f"{source} is not a Markdown file.", hint=_HINT)
        files = note_files(source)
        meter = Meter(total=sum(map(size_of, files)))
        graph = _Graph()
        for one in files:
            meter.done += size_of(one)
            yield from map(meter.piece, self._contents(one, source, graph=graph))
        yield from map(meter.piece, graph.relations())
        yield from graph.omitted.pieces()

    def _contents(
        self, one: Path | Unreadable, source: Path, *, graph: _Graph
    ) -> Iterator[Content]:
        if isinstance(one, Unreadable):
            yield one
            return
        where = one.name if one == source else one.relative_to(source).as_posix()
        text = read_text(one, where)
        if isinstance(text, Unreadable):
            yield text
            return
        note = _Note.parsed(text, where=where, has_observations=self.has_observations)
        graph.omitted["fields of front matter"] += len(set(note.fields) - _READ)
        if note.problem:
            yield note.problem
        graph.add(note)
        for draft in note.drafts():
            if isinstance(draft, Draft):
                graph.link(draft, note=note)
            yield draft
        graph.relate(note)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bullet:
    """An observation, or a relation to the note `target`."""

    line: int
    text: str
    category: str = ""
    context: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """A note: its path, front matter, bullets, and the text without them."""

    where: str
    fields: Row
    bullets: Sequence[_Bullet]
    embeds: Mapping[int, Sequence[str]]
    """What the note shows of other files and notes, by the line."""
    text: str
    problem: Unreadable | None = None

    @classmethod
    def parsed(cls, text: str, *, where: str, has_observations: bool) -> _Note:
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        fields, problem = _front_matter(lines, where=where)
        bullets = list(_taken_bullets(lines)) if has_observations else []
        embeds = dict(_taken_embeds(lines))
        return cls(
            where=where,
            fields=fields,
            bullets=bullets,
            embeds=embeds,
            text="\n".join(lines),
            problem=problem,
        )

    @property
    def title(self) -> str:
        return text_in(self.fields, "title") or self.where.rpartition("/")[2].removesuffix(".md")

    def names(self) -> Iterator[str]:
        """Return the names by which others may link to it, the surest first."""
        path = self.where.removesuffix(".md")
        yield from (path, text_in(self.fields, "permalink"), self.title, path.rpartition("/")[2])
        yield from names_in(self.fields.get("aliases") or self.fields.get("alias"))

    def drafts(self) -> Iterator[Content]:
        """Make the memories of the text, then of the observations and relations."""
        type_ = text_in(self.fields, "type")
        context_fields = Draft(
            body="",
            label=name_or_none("" if type_ == "note" else type_),
            tags=self._tags(),
            source_ref=self.where,
            occurred_at=time_in(self.fields, "created", "date", "created_at"),
        )
        is_empty = True
        for section in self._sections():
            for one in section_drafts(section, context_fields):
                is_empty = False
                yield one
        seen = Counter[str]()
        for bullet in self.bullets:
            digest = text_digest(f"{bullet.category}{bullet.text}{bullet.target}", seen)
            where = source_reference(self.where, f"observation:{digest}")
            for one in fitted(self._stated(bullet, replace(context_fields, source_ref=where))):
                is_empty = False
                yield one
        if is_empty:
            yield Unreadable(where=self.where, reason="The note has no text.")

    def _sections(self) -> Iterator[Section]:
        """Yield the sections, without those that held bullets or embeds alone."""
        lines, start = {*(one.line for one in self.bullets), *self.embeds}, 0
        for section, _ in sections(self.text):
            if section.blocks or lines.isdisjoint(range(start, section.line_end)):
                yield section
            start = section.line_end

    def _tags(self) -> tuple[str, ...]:
        given = self.fields.get("tags") or self.fields.get("tag")
        tags = given.replace(",", " ").split() if isinstance(given, str) else names_in(given)
        return names_in([one.lstrip("#") for one in tags])

    def _stated(self, bullet: _Bullet, context_fields: Draft) -> Iterator[Draft]:
        """State a bullet as a sentence; a relation that only links needs none."""
        if bullet.target:
            if bullet.text.lower() in _GENERIC and not bullet.context:
                return
            body = edge_text(self.title, bullet.text, second=bullet.target)
            kind, label, tags = Kind.FACT, None, ()
        else:
            body = about(self.title, bullet.text)
            kind, label = kind_and_label(bullet.category) or (classify(body), bullet.category)
            tags = _HASHTAG.findall(bullet.text)
        body = f"{body} ({bullet.context})" if bullet.context else body
        yield replace(
            context_fields,
            body=body,
            kind=kind,
            label=name_or_none(label) or context_fields.label,
            tags=names_in([*context_fields.tags, *tags]),
            detail=about_entity(self.title) if kind is Kind.FACT else None,
        )


def _front_matter(lines: list[str], *, where: str) -> tuple[Row, Unreadable | None]:
    """Parse the front matter; what is not YAML is reported, and its lines stay out of the text."""
    count = front_matter_lines(lines)
    block = "\n".join(lines[1 : count - 1]) if count else ""
    if not block.strip():
        return {}, None
    if len(block) > _FRONT_MATTER_CHARS_MAX:
        reason = f"Its front matter has more than {_FRONT_MATTER_CHARS_MAX:,} characters."
        return {}, Unreadable(where=where, reason=reason)
    yaml: Any = import_module("yaml")
    try:
        # A few aliases of aliases make a value of millions of parts, and no program writes them.
        if any(isinstance(one, yaml.AliasToken | yaml.AnchorToken) for one in yaml.scan(block)):
            return {}, Unreadable(where=where, reason="Its front matter has anchors or aliases.")
        fields = as_object(yaml.load(block, Loader=yaml.BaseLoader))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        cause = str(error).partition("\n")[0]
        return {}, Unreadable(where=where, reason=f"Its front matter is not YAML: {cause}.")
    given = (fields or {}).items()
    return {str(key).lower(): value for key, value in given if value not in _NULLS}, None


def _taken_embeds(lines: list[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the names of embeds that stand alone, by their line, and blank their lines.

    They are no text of the note. Those within a text stay in it.
    """
    for token in _tokens(lines):
        if token.type == "inline" and token.map and _EMBEDS.fullmatch(token.content.strip()):
            start, end = token.map
            lines[start:end] = [""] * (end - start)
            yield start, [one.strip() for one in _WIKI_LINK.findall(token.content)]


def _tokens(lines: Sequence[str]) -> Sequence[Token]:
    past = front_matter_lines(lines)
    return block_tokens([""] * past + list(lines[past:]))


def _taken_bullets(lines: list[str]) -> Iterator[_Bullet]:
    """Yield the bullets that are observations or relations, and blank their lines."""
    depth, quoted = 0, 0
    for token in _tokens(lines):
        depth += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        quoted += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "inline" and depth and not quoted and token.map:
            bullet = _bullet(token.content.strip(), line=token.map[0])
            if bullet is not None:
                start, end = token.map
                lines[start:end] = [""] * (end - start)
                yield bullet


def _bullet(text: str, *, line: int) -> _Bullet | None:
    relation = _RELATION.fullmatch(text)
    if relation is not None:
        first, second, third, target, context = relation.groups()
        named = first or second or third
        return _Bullet(
            line=line, text=named, target=target.strip(), context=(context or "").strip()
        )
    observation = _OBSERVATION.fullmatch(text)
    if observation is None or _NO_CATEGORY.fullmatch(observation[1].strip()):
        return None
    content, context = observation[2].strip(), ""
    split = _CONTEXT.match(content)
    if split is not None:
        content, context = split.groups()
    return _Bullet(
        line=line, text=content, category=observation[1].strip(), context=context.strip()
    )


@dataclass(slots=True, kw_only=True)
class _Graph:
    """The names of the notes read so far, and the links that wait until all are read."""

    named: dict[str, str] = field(default_factory=dict[str, str])
    """The path of a note by each of its names."""
    first: dict[str, str] = field(default_factory=dict[str, str])
    """The memory that represents a note, by its path."""
    waiting: list[tuple[str, str, LinkType]] = field(
        default_factory=list[tuple[str, str, LinkType]]
    )
    """The memory or the path of a note, the name of another note, and the type."""
    omitted: Tally = field(default_factory=Tally)

    def add(self, note: _Note) -> None:
        for name in note.names():
            if name:
                self.named.setdefault(_folded(name), note.where)

    def link(self, draft: Draft, *, note: _Note) -> None:
        """Note the links in the text of a draft; the first draft represents its note."""
        reference = draft.source_ref or ""
        self.first.setdefault(note.where, reference)
        targets = dict.fromkeys(map(str.strip, _WIKI_LINK.findall(draft.body)))
        self.waiting += [(reference, one, LinkType.RELATES_TO) for one in targets]

    def relate(self, note: _Note) -> None:
        """Note the relations of a note as a whole."""
        reference = self.first.get(note.where)
        relations = [one for one in note.bullets if one.target]
        embeds = [one for names in note.embeds.values() for one in names]
        shown = [one for one in embeds if not _SUFFIX.search(one)]
        self.omitted["embedded files"] += len(embeds) - len(shown)
        if reference is None:
            self.omitted["relations of notes without text"] += len(relations) + len(shown)
            return
        self.waiting += [(reference, one, LinkType.RELATES_TO) for one in shown]
        self.waiting += [(reference, one.target, link_type(one.text)) for one in relations]

    def relations(self) -> Iterator[SourceRelation]:
        """Yield the links between notes that are there, each once, and count the others."""
        done: set[tuple[str, str, LinkType]] = set()
        for reference, name, type_ in self.waiting:
            second = self.first.get(self.named.get(_folded(name), ""))
            if second is None:
                self.omitted["links to notes that are not there"] += 1
            elif second != reference and (reference, second, type_) not in done:
                done.add((reference, second, type_))
                yield SourceRelation(first=reference, second=second, type=type_)


def _folded(name: str) -> str:
    """Return a name as links are compared: without alias, heading, suffix and case."""
    plain = re.split(r"[|#^]", name, maxsplit=1)[0].strip()
    return plain.removesuffix(".md").replace("\\", "/").strip("/").casefold()


BASIC_MEMORY: Final = NoteFolder(
    name="basic-memory",
    purpose="basic-memory's notes: observations, relations, front matter",
    has_observations=True,
    folders=("basic-memory",),
)
OBSIDIAN: Final = NoteFolder(
    name="obsidian",
    purpose="An Obsidian vault: notes with links, tags and properties",
    has_observations=False,
    folders=(
        *("*/.obsidian", "Documents/*/.obsidian", "Documents/Obsidian/*/.obsidian"),
        f"{_ICLOUD}/*/.obsidian",
    ),
)
