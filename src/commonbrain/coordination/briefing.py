"""The briefing of a boot and its text form: what binds first, what changes often last."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from commonbrain.model.escaping import pluralize
from commonbrain.model.kinds import Severity
from commonbrain.model.limits import MESSAGES_PAGE_MAX, BriefingLimits
from commonbrain.model.recall_result import BINDING
from commonbrain.text.tokens import estimate

UNCONFIRMED: Final = (
    "FROM PROMPTS, NOT CONFIRMED BY THE USER: ask them; they confirm it with `brain review`"
)
MORE: Final = "MORE BLOCKERS, SKILLS AND PINNED NOTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingEntry:
    """A memory on one line: id, headline and further details."""

    id: str
    headline: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedNote:
    """A pinned note of the project."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingSession:
    """Another active session of the project."""

    session: str
    agent: str
    task: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedHandoff:
    """The handoff of the previous session, as much as fits, and where to find the rest."""

    id: str
    agent: str
    date: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingContext:
    """What the task text itself refers to; computed at each boot and not stored."""

    task: str
    names: tuple[str, ...] = ()
    """Files, tickets, people and topics in the task."""
    skills: tuple[BriefingEntry, ...] = ()
    """Skills whose keywords the task contains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The omitted part of a section: how much, and the next ids."""

    section: str
    left_out: int
    """Entries; for a handoff characters."""
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """The briefing, within its tokens as text and as JSON for agents.

    Fields are in reading order. Notice, blockers, skills and pinned notes come first and depend on
    nothing else, so that a prompt cache can hold them.
    """

    notice: str = BINDING
    blockers: tuple[BriefingEntry, ...] = ()
    skills: tuple[BriefingEntry, ...] = ()
    """Skills without a keyword."""
    notes: tuple[PinnedNote, ...] = ()
    action_items: tuple[BriefingEntry, ...] = ()
    unconfirmed: tuple[BriefingEntry, ...] = ()
    """What the user said in a prompt, until a person confirms or declines it."""
    more: tuple[BriefingEntry | PinnedNote, ...] = ()
    """Blockers, skills and pinned notes that exceed the share of the stable part."""
    handoff: InheritedHandoff | None = None
    urgent: tuple[BriefingEntry, ...] = ()
    """Unread urgent messages."""
    siblings: tuple[SiblingSession, ...] = ()
    pinned: tuple[BriefingEntry, ...] = ()
    """Pinned memories that no other section shows."""
    patterns: tuple[BriefingEntry, ...] = ()
    tasks: tuple[BriefingEntry, ...] = ()
    changes: tuple[BriefingEntry, ...] = ()
    """What changed lately, each with what held before."""
    working_context: WorkingContext | None = None
    unread: int = 0
    """Unread messages of every priority; 101 means more than 100."""
    action_items_pending: int = 0
    writes_blocked: bool = False
    """Whether writes are rejected until the action items are acknowledged."""
    session: str | None = None
    """The session key of the agent's memories."""
    project: str | None = None
    truncated: tuple[Truncation, ...] = ()
    degraded: tuple[str, ...] = ()
    """Parts that could not be computed, each with the reason."""
    loaded: str = ""
    """The number of loaded entries, for the agent to repeat."""
    tokens: int = 0
    """Approximate number of tokens."""

    @property
    def text(self) -> str:
        """The briefing as text for an agent."""
        parts = chain(_stable_sections(self), _changing_sections(self))
        return "\n".join(line for _, lines in parts for line in lines)

    def to_json(self) -> str:
        """Return compact JSON without null values."""
        return compact(self)


def compact(value: object) -> str:
    """Return JSON in the form shown to agents: of what has fields, those that are set."""
    return _ENCODER.encode(value)


def _set_fields(value: Any) -> dict[str, object]:  # noqa: ANN401 a dataclass
    names = value.__dataclass_fields__
    return {name: one for name in names if (one := getattr(value, name)) is not None}


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_set_fields)


def sections(briefing: Briefing) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Render the text section by section, each with its name; empty ones are left out."""
    for name, lines in chain(_stable_sections(briefing), _changing_sections(briefing)):
        if rendered := tuple(lines):
            yield name, rendered


def _stable_sections(briefing: Briefing) -> Iterator[tuple[str, Iterable[str]]]:
    yield "notice", (briefing.notice,)
    yield "blockers", _section("BLOCKERS", briefing.blockers)
    yield "skills", _section("SKILLS, ALWAYS ON", briefing.skills)
    yield "notes", _titled("PINNED NOTES", map(note_line, briefing.notes))


def _changing_sections(briefing: Briefing) -> Iterator[tuple[str, Iterable[str]]]:
    blocked = ": acknowledge them before you write" if briefing.writes_blocked else ""
    yield "action_items", _section(f"ACTION ITEMS{blocked}", briefing.action_items)
    yield "unconfirmed", _section(UNCONFIRMED, briefing.unconfirmed)
    yield "more", _titled(MORE, map(line, briefing.more))
    yield "handoff", handoff_lines(briefing.handoff) if briefing.handoff else ()
    yield "messages", _message_lines(briefing)
    yield "siblings", _titled("OTHER SESSIONS HERE", map(session_line, briefing.siblings))
    yield "pinned", _section("PINNED", briefing.pinned)
    yield "patterns", _section("PATTERNS", briefing.patterns)
    yield "tasks", _section("TASKS", briefing.tasks)
    yield "changes", _section("CHANGED LATELY", briefing.changes)
    yield "end", tail_lines(briefing)


def _message_lines(briefing: Briefing) -> Iterator[str]:
    if briefing.unread:
        more = "+" if briefing.unread > MESSAGES_PAGE_MAX else ""
        count = f"{min(briefing.unread, MESSAGES_PAGE_MAX)}{more}"
        yield f"MESSAGES: {count} unread{'; urgent:' if briefing.urgent else ''}"
        yield from map(entry_line, briefing.urgent)


def tail_lines(briefing: Briefing) -> Iterator[str]:
    """Render the lines after the sections."""
    if briefing.working_context:
        yield from context_lines(briefing.working_context)
    yield from map(truncation_line, briefing.truncated)
    yield from (f"Degraded: {what}" for what in briefing.degraded)
    where = f", project {briefing.project}" if briefing.project else ""
    yield f"Session {briefing.session or 'unknown'}{where}."
    if briefing.writes_blocked:
        some = pluralize(briefing.action_items_pending, "action item", many="action items")
        yield f"Writes wait for {some}."
    yield briefing.loaded


def _section(heading: str, entries: Iterable[BriefingEntry]) -> Iterator[str]:
    return _titled(heading, map(entry_line, entries))


def _titled(heading: str, lines: Iterator[str]) -> Iterator[str]:
    """Put a heading above lines; nothing if there are none."""
    first = next(lines, None)
    if first is not None:
        yield from (heading, first, *lines)


def entry_line(entry: BriefingEntry) -> str:
    """Render an entry."""
    return f"- {entry.id} {entry.headline}{f' ({entry.note})' if entry.note else ''}"


def line(entry: BriefingEntry | PinnedNote | SiblingSession) -> str:
    """Render an entry of any section."""
    match entry:
        case BriefingEntry():
            return entry_line(entry)
        case PinnedNote():
            return note_line(entry)
        case SiblingSession():
            return session_line(entry)


def note_line(note: PinnedNote) -> str:
    """Render a pinned note."""
    return f"- {note.key}: {note.value}"


def session_line(one: SiblingSession) -> str:
    """Render another session."""
    known = (one.session, one.agent, one.task, one.note)
    return f"- {' | '.join(part for part in known if part)}"


def handoff_lines(handoff: InheritedHandoff) -> Iterator[str]:
    """Render a handoff, each line quoted."""
    yield f"HANDOFF {handoff.id} by {handoff.agent}, {handoff.date}"
    yield from (f"> {line}" for line in handoff.text.splitlines())


def context_lines(context: WorkingContext) -> Iterator[str]:
    """Render the working context."""
    yield f"YOUR TASK: {context.task}"
    if context.names:
        yield f"It names {', '.join(context.names)}."
    yield from _section("Skills it calls for:", context.skills)


def truncation_line(cut: Truncation) -> str:
    """Render what was omitted of a section."""
    what = f" ({', '.join(cut.ids)})" if cut.ids else ""
    return f"Not shown of {cut.section}: {cut.left_out:,}{what}"


CUT_IDS_MAX: Final = 2
"""Ids of omitted entries that are named."""
_STABLE: Final = ("blockers", "skills", "notes")
"""Sections of the stable part, most important first."""
_BY_IMPORTANCE: Final = (
    "action_items",
    "unconfirmed",
    "more",
    "handoff",
    "urgent",
    "siblings",
    "pinned",
    "patterns",
    "tasks",
    "changes",
)
"""Sections after the stable part: what is unused is given to them in this order."""
_SECTIONS: Final = (*_STABLE, *(name for name in _BY_IMPORTANCE if name != "handoff"))
_STABLE_SHARE_MAX: Final = 0.6
_NAME_TOKENS_MAX: Final = 40
_DEGRADED_TOKENS_MAX: Final = 100
_ROUNDS_MAX: Final = 12
"""What a round adds frees the lines of cuts; few rounds find room for more."""

_T = TypeVar("_T")
_Entry = BriefingEntry | PinnedNote | SiblingSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[_T]):
    """The first entries of a section, best first, some of them beyond its cap, and the total."""

    first: tuple[_T, ...] = ()
    total: int = 0

    def __post_init__(self) -> None:
        """Check that the total is not smaller than the number of entries."""
        if self.total < len(self.first):
            raise ValueError(f"{self.total} in all, {len(self.first)} given")


def _none() -> Listed[Any]:
    return Listed()


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingMaterial:
    """Everything that a briefing could contain."""

    blockers: Listed[BriefingEntry] = field(default_factory=_none)
    skills: Listed[BriefingEntry] = field(default_factory=_none)
    notes: Listed[PinnedNote] = field(default_factory=_none)
    action_items: Listed[BriefingEntry] = field(default_factory=_none)
    unconfirmed: Listed[BriefingEntry] = field(default_factory=_none)
    handoff: InheritedHandoff | None = None
    urgent: Listed[BriefingEntry] = field(default_factory=_none)
    unread: int = 0
    siblings: Listed[SiblingSession] = field(default_factory=_none)
    pinned: Listed[BriefingEntry] = field(default_factory=_none)
    patterns: Listed[BriefingEntry] = field(default_factory=_none)
    tasks: Listed[BriefingEntry] = field(default_factory=_none)
    changes: Listed[BriefingEntry] = field(default_factory=_none)
    working_context: WorkingContext | None = None
    writes_blocked: bool = False
    session: str | None = None
    project: str | None = None
    degraded: tuple[str, ...] = ()


class Cost(NamedTuple):
    """Tokens in the two forms that agents read."""

    text: int
    json: int

    def fits(self, unused: "Cost") -> bool:
        """Return whether it fits in both forms."""
        return self.text <= unused.text and self.json <= unused.json

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(self.text + other.text, self.json + other.json)

    def less(self, other: "Cost") -> "Cost":
        """Return the difference."""
        return Cost(self.text - other.text, self.json - other.json)

    def at_most(self, tokens: int) -> "Cost":
        """Return it with an upper limit for each form."""
        return Cost(min(self.text, tokens), min(self.json, tokens))


_NOTHING: Final = Cost(0, 0)
_HEADING: Final = Cost(12, 0)
"""Of the heading of a section, at most."""
_DEFAULT_LIMITS: Final = BriefingLimits()


def pack_briefing(
    material: BriefingMaterial, *, limits: BriefingLimits = _DEFAULT_LIMITS
) -> Briefing:
    """Pack a briefing within its tokens, both as text and as JSON for agents.

    Each section gets its share first; what is unused goes to the cut sections by importance. In the
    end nothing that was left out within the cap of its section fits into what remains.
    """
    packer = _Packer(material=material, limits=limits)
    packer.fill()
    briefing = packer.briefing()
    return replace(briefing, tokens=max(_measure(briefing)))


@dataclass(slots=True, kw_only=True)
class _Packer:
    """A briefing that is being filled."""

    material: BriefingMaterial
    limits: BriefingLimits
    shown: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in _SECTIONS})
    """The places of the shown entries, by section."""
    rest: list[tuple[str, _Entry]] = field(default_factory=list[tuple[str, _Entry]])
    """Entries beyond the share of the stable part, each with its section."""
    added: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Section and place of the entries after the stable part, in the order of adding."""
    handoff_chars: int = 0
    has_handoff: bool = True
    has_context: bool = True
    cut_ids: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((*_STABLE, *reversed(_BY_IMPORTANCE)), CUT_IDS_MAX)
    )
    """Omitted ids that the cut of each section names."""

    def fill(self) -> None:
        """Fill the stable part, then the share of each section, then what is left."""
        self._fill_stable()
        self._name_fewer()
        self.has_context = _NOTHING.fits(self._unused())
        self.has_handoff = _NOTHING.fits(self._unused())
        self._fill_shares(_BY_IMPORTANCE, self._unused())
        for _ in range(_ROUNDS_MAX):
            before = len(self.added), self.handoff_chars
            self._fill_in_order(_BY_IMPORTANCE, self._unused())
            if before == (len(self.added), self.handoff_chars):
                break
        # The omitted ids are others now, which may be longer.
        self._name_fewer()
        while self.added and not _NOTHING.fits(self._unused()):
            name, place = self.added.pop()
            self.shown[name].discard(place)
        if not _NOTHING.fits(self._unused()):
            self.handoff_chars = 0

    def _name_fewer(self) -> None:
        """Name fewer of the omitted ids until everything fits."""
        for name in self.cut_ids:
            while self.cut_ids[name]:
                if _NOTHING.fits(self._unused()):
                    return
                self.cut_ids[name] -= 1

    def briefing(self) -> Briefing:
        """Return what is shown so far, with a report of the omissions."""
        given = self.material
        sections: dict[str, Any] = {
            name: tuple(self._entries(name)[place] for place in sorted(places))
            for name, places in self.shown.items()
        }
        blockers, tasks = self._count("blockers"), self._count("tasks")
        return Briefing(
            **sections,
            handoff=self._handoff(self.handoff_chars),
            working_context=given.working_context if self.has_context else None,
            unread=given.unread,
            action_items_pending=given.action_items.total,
            writes_blocked=given.writes_blocked,
            session=given.session,
            project=clip_text(given.project, _NAME_TOKENS_MAX) if given.project else None,
            truncated=tuple(self._cuts()),
            degraded=tuple(
                clip_text(one, _DEGRADED_TOKENS_MAX // len(given.degraded))
                for one in given.degraded
            ),
            loaded=f"BLOCKERS loaded: {blockers}, TASKS loaded: {tasks}",
            tokens=self.limits.tokens,
        )

    def _fill_stable(self) -> None:
        """Fill the stable part by nothing but its own entries and shares."""
        share = min(sum(self.limits.shares[name] for name in _STABLE), _STABLE_SHARE_MAX)
        tokens = int(share * self.limits.tokens)
        self._fill_in_order(_STABLE, self._fill_shares(_STABLE, Cost(tokens, tokens)))
        self.added.clear()
        self.rest = [
            (name, _named(one) if name == "blockers" else one)
            for name in _STABLE
            for place, one in enumerate(self._entries(name))
            if place not in self.shown[name]
        ]

    def _fill_shares(self, names: Iterable[str], unused: Cost) -> Cost:
        """Give each section at most its share of the budget; return what is left."""
        for name in names:
            share = int(self.limits.shares.get(name, 0) * self.limits.tokens)
            given = unused.at_most(share)
            unused = unused.less(given.less(self._fill_section(name, given)))
        return unused

    def _fill_in_order(self, names: Iterable[str], unused: Cost) -> None:
        for name in names:
            unused = self._fill_section(name, unused)

    def _fill_section(self, name: str, unused: Cost) -> Cost:
        """Add the entries of a section that fit; return what is left."""
        if name == "handoff":
            return self._extend_handoff(unused)
        shown = self.shown[name]
        for place, one in enumerate(self._entries(name)):
            cost = entry_cost(one) if shown else entry_cost(one).plus(_HEADING)
            if place not in shown and cost.fits(unused):
                shown.add(place)
                self.added.append((name, place))
                unused = unused.less(cost)
        return unused

    def _extend_handoff(self, unused: Cost) -> Cost:
        """Show as many more characters of the handoff as fit; return what is left."""
        whole = self._handoff(0)
        if whole is None or self.material.handoff is None:
            return unused
        limit = unused.plus(_handoff_cost(self._handoff(self.handoff_chars) or whole))
        high = min(len(self.material.handoff.text), self.limits.handoff_chars)
        low = self.handoff_chars
        while low < high:
            middle = (low + high + 1) // 2
            cost = _handoff_cost(self._handoff(middle) or whole)
            low, high = (middle, high) if cost.fits(limit) else (low, middle - 1)
        self.handoff_chars = low
        return limit.less(_handoff_cost(self._handoff(low) or whole))

    def _handoff(self, chars: int) -> InheritedHandoff | None:
        given = self.material.handoff
        if given is None or not self.has_handoff:
            return None
        is_cut = chars < len(given.text)
        text = f"{given.text[:chars].rstrip()}…" if is_cut and chars else given.text[:chars]
        return replace(given, text=text)

    def _entries(self, name: str) -> Sequence[Any]:
        """Return the entries of a section within its cap."""
        if name == "more":
            return [one for _, one in self.rest]
        return _of(self.material, name).first[: self.limits.caps[name]]

    def _count(self, name: str) -> int:
        """Count the shown entries of a section, those in `more` with it."""
        return len(self.shown[name]) + sum(self.rest[n][0] == name for n in self.shown["more"])

    def _unused(self) -> Cost:
        """Return what is unused, negative if too much is shown."""
        return Cost(self.limits.tokens, self.limits.tokens).less(_measure(self.briefing()))

    def _cuts(self) -> Iterable[Truncation]:
        for name in self.limits.caps:
            left_out = _of(self.material, name).total - self._count(name)
            if left_out:
                yield Truncation(section=name, left_out=left_out, ids=self._omitted(name))
        given = self.material.handoff
        shown = self._handoff(self.handoff_chars)
        if given and shown != given:
            left = len(given.text) - len(shown.text.removesuffix("…") if shown else "")
            yield Truncation(section="handoff", left_out=left, ids=(given.id,))
        if self.material.working_context and not self.has_context:
            yield Truncation(section="working_context", left_out=1, ids=())

    def _omitted(self, name: str) -> tuple[str, ...]:
        """Return the ids of the first omitted entries of a section."""
        in_more = [self.rest[n][1] for n in self.shown["more"] if self.rest[n][0] == name]
        known = {_name_of(one) for one in in_more}
        names = (
            _name_of(one)
            for place, one in enumerate(_of(self.material, name).first)
            if place not in self.shown[name]
        )
        omitted = [one for one in names if one not in known][: self.cut_ids[name]]
        return tuple(clip_text(one, _NAME_TOKENS_MAX) for one in omitted)


def _named(blocker: BriefingEntry) -> BriefingEntry:
    """Mark a BLOCKER that is shown outside its section."""
    note = f"{Severity.BLOCKER}, {blocker.note}" if blocker.note else str(Severity.BLOCKER)
    return replace(blocker, note=note)


def _measure(briefing: Briefing) -> Cost:
    return Cost(estimate(briefing.text), estimate(briefing.to_json()))


@lru_cache(1024)
def entry_cost(entry: BriefingEntry | PinnedNote | SiblingSession) -> Cost:
    """Return the maximum tokens by which an entry makes a briefing longer, without a heading."""
    return Cost(estimate(f"{line(entry)}\n") + 1, estimate(f"{compact(entry)},") + 1)


@lru_cache(64)
def _handoff_cost(handoff: InheritedHandoff) -> Cost:
    return Cost(estimate("\n".join(handoff_lines(handoff))), estimate(compact(handoff))).plus(
        Cost(1, 1) if handoff.text else _NOTHING
    )


def clip_text(text: str, tokens: int) -> str:
    """Return the beginning of a text that fits into a number of tokens."""
    if _cost_of_text(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = _cost_of_text(text[:middle] + "…") <= tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    return f"{text[:low].rstrip()}…" if low else ""


@lru_cache(1024)
def _cost_of_text(text: str) -> int:
    return max(estimate(text), estimate(json.dumps(text, ensure_ascii=False)[1:-1]))


def _of(material: BriefingMaterial, name: str) -> Listed[Any]:
    return getattr(material, name)


def _name_of(one: BriefingEntry | PinnedNote | SiblingSession) -> str:
    match one:
        case BriefingEntry():
            return one.id
        case PinnedNote():
            return one.key
        case SiblingSession():
            return one.session
