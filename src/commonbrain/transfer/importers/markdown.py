"""MEMORY.md, CLAUDE.md and other notes in Markdown: a section becomes one memory or several.

Each memory stands alone: its first line names the headings above it. Its headline is the nearest
heading, if that is a short topic, followed by the first words of its own, so that memories under
one heading can be told apart in a list; its kind follows from its words, or else from the heading.
What the write gate would not accept as one statement is stored as an event, which may have any
content. The types that OpenBrain's `brain:seed-memory` infers (php/Console/Commands/
BrainSeedMemoryCommand.php of https://github.com/dAppCore/agent) are kinds or subtypes here: a
heading such as "Plan" or "Decisions" gives kind and label.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from commonbrain.ingestion.validation import Rejection, validate
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, Severity, TaskDetail, TaskStatus, kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.text.classification import classify, severity_of
from commonbrain.text.headlines import derive_headline
from commonbrain.text.private_parts import without_private
from commonbrain.transfer.importer import (
    DetectedSource,
    Importer,
    ImportItem,
    Unreadable,
    file_found,
    files_found,
    name_or_none,
    shorten_name,
    source_reference,
)
from commonbrain.transfer.importers.projects import (
    LOCAL,
    NamedProjects,
    Projects,
    projects_below,
)
from commonbrain.transfer.importers.sections import (
    STATEMENT_CHARS_MIN,
    Section,
    Text,
    sections,
    split_blocks,
)

_PLACE_CHARS: Final = 8
"""Enough of a digest to distinguish the texts of one section."""


_SKIPPED: Final = frozenset({"node_modules"})
"""Folders of other people's texts; hidden ones, such as .git, are skipped as well."""


_LEAVES: Final = "It is a link that leaves the folder."


def markdown_files(root: Path) -> Iterator[Path | Unreadable]:
    """Return the files below a folder in the order of their paths, each once, following links.

    A link that leaves the folder is reported but not followed: the user did not offer what is
    there.
    """
    yield from _Walk(root=root, real=root.resolve()).below(root)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is in a folder when links are followed, as it was offered then."""
    return path.resolve().is_relative_to(folder.resolve())


def links_outside(folder: Path, *patterns: str) -> Iterator[ImportItem]:
    """Report the links below a folder that leave it: folders, and files with such names."""
    for path in sorted(folder.rglob("*")):
        is_named = path.is_dir() or any(path.match(one) for one in patterns)
        if path.is_symlink() and is_named and not is_inside(path, folder):
            yield link_outside(path, folder)


def link_outside(path: Path, folder: Path) -> ImportItem:
    """Report a link that leaves a folder."""
    where = path.relative_to(folder).as_posix()
    return ImportItem(content=Unreadable(where=where, reason=_LEAVES), progress=0.0)


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
        if not is_inside(real, self.real):
            yield self._unreadable(path, _LEAVES)
        elif is_folder:
            yield from self.below(path)
        elif path.is_file():
            self.seen.add(real)
            yield path
        else:
            yield self._unreadable(path, "It is not a file.")

    def _unreadable(self, path: Path, reason: str) -> Unreadable:
        return Unreadable(where=path.relative_to(self.root).as_posix(), reason=reason)


_TAG: Final = "memory-import"
_CONFIDENCE: Final = 0.7
"""Notes are written with care, but become outdated unnoticed."""
_FILE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A file is parsed whole, which takes some fifty times its size; no notes are this long."""
_TYPES: Final[Mapping[str, str]] = {
    "convention": "conventions?|coding standards?|(?:code|coding) style|style guide|naming"
    "|konventionen|convenciones",
    "rule": "rules|guidelines|guardrails|principles|standards|policies|constraints"
    "|non-negotiables|dos and don'ts|ways of working|never|regeln|règles|reglas",
    "preference": "preferences?|(?:my|our) taste|(?:how|what) (?:i|we) (?:like|prefer)|vorlieben"
    "|préférences|preferencias",
    "question": "(?:^|(?:open|unresolved|unanswered|remaining) )questions|unclear|still unknown"
    "|offene fragen|questions ouvertes|preguntas abiertas",
    "task": "to-?dos?|tasks|next (?:steps|actions)|action items|open items|backlog|follow-?ups?"
    "|chores|aufgaben|tâches|tareas",
    "bug": "bugs?|defects|known (?:issues|errors|problems)|bekannte fehler|errores conocidos",
    "incident": "incidents|outages|post-?mortems?|failures|what went wrong|vorfälle|störungen"
    "|incidentes",
    "decision": "decisions?(?: log)?|(?:we )?(?:agreed|decided|settled)|trade-?offs accepted"
    "|entscheidungen|décisions|decisiones",
    "architecture": "architecture|infrastructure|stack|system design|(?:^|main )components"
    "|pieces fit together|architektur|arquitectura",
    "plan": "(?<!pricing )plans?|roadmap|milestones?|strategy|rollout|pläne",
    "research": "research|findings?|analysis|benchmarks?|recherche|investigación",
}
"""The last words of headings that announce a type: a kind, a subtype, or a label of a kind."""
_LABELS: Final[Mapping[str, Kind]] = {"preference": Kind.RULE, "question": Kind.TASK}
_HEADINGS: Final[Mapping[str, re.Pattern[str]]] = {
    type_: re.compile(rf"(?<!\w)(?:{words})[\W\d]*$", re.IGNORECASE)
    for type_, words in _TYPES.items()
}
_QUALIFIER: Final = re.compile(
    r"\s(?:\(|[-:\u2013\u2014]\s"
    r"|(?:about|after|at|by|for|from|in|(?<!plan )of|on|since|that|to|with)\b).*$",
    re.IGNORECASE,
)
"""What limits a heading and does not say what is below: "Plan for the rewrite", "Rules (2025)".

A plan of something may be a map."""
_JOINED: Final = re.compile(r"\s(?:and|und|et|y|&|\+)\s|\s?[,/]\s?")
_CHECKBOX: Final = re.compile(r"\[(?P<done>[ xX])\]\s")
_TOPIC_WORDS_MAX: Final = 5
"""A longer heading would leave no room in the headline for the statement."""


_INSTRUCTIONS: Final = (
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".gemini/GEMINI.md",
    ".qwen/QWEN.md",
    ".config/opencode/AGENTS.md",
    ".codeium/windsurf/memories/global_rules.md",
)
"""What users tell an agent for all projects, below their home."""


@dataclass(frozen=True, slots=True)
class MarkdownFolder(Importer):
    """Reads one Markdown file, or every `*.md` in a folder and its subfolders."""

    name: str = "markdown"
    purpose: str = "Notes in Markdown: MEMORY.md, CLAUDE.md and others"
    projects: Projects = LOCAL

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the folders in which agents keep notes, and their users' instructions."""
        for folder in (*sorted(home.glob(".claude/projects/*/memory")), home / ".codex/memories"):
            yield from files_found(folder, "**/*.md")
        for instructions in _INSTRUCTIONS:
            yield from file_found(home / instructions)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Return the memories in the order of the files' paths.

        Raises:
            InvalidInputError: there is no such file, or no Markdown file in the folder; raised
                before the first piece.

        """
        files = note_files(source)
        sizes = [size_of(one) for one in files]
        bytes_total, bytes_before = max(sum(sizes), 1), 0
        for one, size in zip(files, sizes, strict=True):
            for content, fraction in self._read(one, source):
                yield ImportItem(
                    content=content, progress=(bytes_before + fraction * size) / bytes_total
                )
            bytes_before += size

    def projects_in(self, source: Path) -> Mapping[str, str]:
        """Return the projects of the folders below a source, where they change."""
        files = (one for one in note_files(source) if isinstance(one, Path))
        return projects_below(source, files, projects=self.projects)

    def for_copy(self, projects: Mapping[str, str]) -> Importer:
        """Return the importer of a copy, see `Importer`."""
        return replace(self, projects=NamedProjects(known=projects))

    def _read(
        self, one: Path | Unreadable, source: Path
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
        about = self.projects.of_file(one, source)
        context_fields = Draft(
            body="",
            project=name_or_none(about),
            confidence=_CONFIDENCE,
            tags=(shorten_name(one.stem.lower()), _TAG),
            source_ref=where,
        )
        for section, fraction in sections(text):
            for content in section_drafts(section, context_fields):
                yield content, fraction


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


def drafts_of_text(text: str, context_fields: Draft) -> Iterator[Draft | Unreadable]:
    """Make drafts of notes that are no file of their own; they share the fields of a draft."""
    if text.strip():
        for section, _ in sections(text):
            yield from section_drafts(section, context_fields)


def read_text(file: Path, where: str) -> str | Unreadable:
    """Return the text of a file without its private parts, or why there is none."""
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            reason = f"The file is larger than {_FILE_BYTES_MAX:,} bytes; split it."
            return Unreadable(where=where, reason=reason)
        text = without_private(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        return Unreadable(where=where, reason=f"It is not UTF-8 text, from byte {error.start} on.")
    except OSError as error:
        return Unreadable(where=where, reason=f"It cannot be read: {error.strerror}.")
    return text if text.strip() else Unreadable(where=where, reason="The file is empty.")


def section_drafts(section: Section, context_fields: Draft) -> Iterator[Draft | Unreadable]:
    """Make drafts of a section; a heading without text becomes a memory itself."""
    path, texts = section.path, list(split_blocks(section.blocks))
    own = " ".join([*path[-1:], *(text.words for text in texts)])
    is_heading = not texts and section.is_leaf and bool(path)
    if is_heading:
        path, texts = path[:-1], [Text(words=path[-1])]
    file, seen = context_fields.source_ref or "", Counter[str]()
    for text in texts:
        if len(own) < STATEMENT_CHARS_MIN:
            yield Unreadable(
                where=source_reference(file, section.slug),
                reason=f"shorter than {STATEMENT_CHARS_MIN} characters: "
                f"{_with_context(text, path)!r}",
            )
            continue
        digest = "" if is_heading else text_digest(text.words, seen)
        where = source_reference(file, ":".join(filter(None, (section.slug, digest))))
        yield _draft(replace(context_fields, source_ref=where), text, path=path)


def text_digest(text: str, seen: Counter[str]) -> str:
    """Return a digest that identifies a text wherever it moves within its source.

    `seen` counts the digests of a source; from the second equal text on, a number follows.
    """
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_PLACE_CHARS]
    seen[digest] += 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def _draft(context_fields: Draft, text: Text, *, path: Sequence[str]) -> Draft:
    kind, label = _classify(text, path)
    checked = _CHECKBOX.match(text.words)
    draft = replace(
        context_fields,
        label=context_fields.label or label,
        body=_with_context(text, path),
        headline=_make_headline(text, path) or None,
        kind=kind,
        severity=severity_of(f"{text.lead}\n{text.words}") if kind is Kind.RULE else None,
        detail=TaskDetail(status=TaskStatus.DONE) if checked and checked["done"] != " " else None,
    )
    match validate(draft):
        case Rejection():
            return replace(draft, kind=Kind.EVENT, severity=None, detail=None)
        case _:
            return draft


def _with_context(text: Text, path: Sequence[str]) -> str:
    context = f"{' > '.join(path)}:" if path else ""
    return "\n".join(part for part in (context, text.lead, text.words) if part)


def _classify(text: Text, path: Sequence[str]) -> tuple[Kind, str | None]:
    """Return the kind and label that the nearest heading announces, else the kind of the text.

    Below any heading, what has a checkbox is a task; among facts, what is forbidden is a rule.
    """
    deciding = f"{text.lead}\n{text.words}"
    types = (announced_type(heading) for heading in reversed(path))
    named = next((one for one in types if one), None)
    if _CHECKBOX.match(text.words):
        return Kind.TASK, None
    if named is None:
        return classify(deciding), None
    kind, label = kind_and_label(named) or (_LABELS[named], named)
    is_forbidden = kind is Kind.FACT and severity_of(deciding) is Severity.BLOCKER
    return (Kind.RULE, None) if is_forbidden else (kind, label)


def announced_type(heading: str) -> str | None:
    """Return the type of what is below a heading; None if it does not say, or names several."""
    for words in dict.fromkeys((heading, _QUALIFIER.sub("", heading))):
        parts = [_type_of(one) for one in _JOINED.split(words)]
        if parts[-1] and {*parts} <= {parts[-1], None}:
            return parts[-1]
    return None


def _type_of(words: str) -> str | None:
    return next((one for one, pattern in _HEADINGS.items() if pattern.search(words)), None)


def _make_headline(text: Text, path: Sequence[str]) -> str:
    topic = path[-1].rstrip(":.!?") if path else ""
    own = derive_headline(text.words)
    if not topic or len(topic.split()) > _TOPIC_WORDS_MAX or own.startswith(topic):
        return own
    joined = derive_headline(f"{topic}: {own}")
    # Otherwise only a heading that ends a sentence, such as `Why? Because`, would remain.
    return joined if joined.startswith(f"{topic}: ") else own
