"""A memory as a person who decides on it sees it: its whole text, and what it does to agents."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, Severity, is_blocker
from commonbrain.model.limits import REVIEW_CHARS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Authority, Scope, Trust
from commonbrain.model.skills import skill_of
from commonbrain.model.tasks import must_be_acknowledged
from commonbrain.model.timestamps import show_day
from commonbrain.model.values import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """A memory that needs a decision."""

    id: str
    kind: Kind
    headline: str
    text: str
    """Headline, body and texts of its kind, up to 5,000 characters."""
    left_out: int
    """Characters of the text after those."""
    traits: tuple[str, ...]
    """Its kind, who wrote it unless a person did, what it does to agents, and its names."""
    project: str | None
    agent: str
    trust: Trust
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEffects:
    """What a decision does to a memory."""

    memory: MemorySummary
    effects: tuple[str, ...]
    """In words, such as "unpins it"; none is left out."""

    def line(self) -> str:
        """Return what was done, and the text, on one line."""
        return inert_line(f"{self.memory.id} {', '.join(self.effects)}: {self.memory.text}")


def summarize(memory: Memory) -> MemorySummary:
    """Return what is shown of a memory."""
    text = "\n".join(_texts_of(memory))
    return MemorySummary(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        text=text[:REVIEW_CHARS_MAX],
        left_out=max(0, len(text) - REVIEW_CHARS_MAX),
        traits=tuple(_traits_of(memory)),
        project=memory.project,
        agent=memory.agent,
        trust=memory.trust,
        confidence=memory.confidence,
    )


def _texts_of(memory: Memory) -> Iterator[str]:
    """Return the text and those of the columns of its kind, such as the cause of an incident."""
    yield memory.text
    for column in fields(memory.detail):
        value = getattr(memory.detail, column.name)
        is_text = isinstance(value, str) and not isinstance(value, StrEnum)
        if is_text and value not in memory.text:
            yield f"{column.name.replace('_', ' ')}: {value}"


def _traits_of(memory: Memory) -> Iterator[str]:
    yield memory.kind
    if memory.authority is not Authority.PERSON:
        yield f"authority {memory.authority}"
    if is_blocker(memory.detail):
        yield Severity.BLOCKER
    if (skill := skill_of(memory)) is not None:
        shown = "always" if skill.always_on else f"by {', '.join(skill.keywords)}"
        yield f"skill {skill.name}, shown {shown}"
    if must_be_acknowledged(memory.detail):
        yield "to be acknowledged by all"
    if memory.scope is Scope.GLOBAL:
        yield "in every project"
    if memory.pinned:
        yield "pinned"
    if memory.expires_at is not None:
        yield f"until {show_day(memory.expires_at)}"
    named = {"label": memory.label, "tags": ", ".join(memory.tags), "source": memory.source_ref}
    yield from (f"{name} {value}" for name, value in named.items() if value)
