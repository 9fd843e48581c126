"""What is made of memories that belong together: an episode, and facts to be approved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from commonbrain.domain.digest import body_of
from commonbrain.domain.gate import derive_headline
from commonbrain.domain.kinds import EpisodeDetail, EventDetail, Kind, MessageDetail
from commonbrain.domain.memory import Draft, Memory
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.reflection import SUMMARY, Point, Reflection, Told
from commonbrain.domain.scope import Caller, Role, Scope
from commonbrain.domain.scoring import confidence

_ROLES = frozenset({"assistant", "system", "tool", "user"})
"""Speakers whose names are nobody's: what they say stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """An episode of some memories, and what is proposed because of them."""

    sources: tuple[Memory, ...]
    episode: Draft
    facts: tuple[Draft, ...]


def told_by(sources: Sequence[Memory]) -> list[Told]:
    """Give memories as what is reflected on."""
    return [Told(text=one.text, speaker=_speaker(one), weight=one.salience) for one in sources]


def drafts(reflection: Reflection, *, of: Sequence[Memory], caller: Caller) -> Drafts:
    """Make drafts of what was found in memories; trust and scope are settled from those."""
    return Drafts(
        sources=tuple(of),
        episode=_episode(reflection, of=of, caller=caller),
        facts=tuple(_facts(reflection.claims, of=of, caller=caller)),
    )


def _episode(reflection: Reflection, *, of: Sequence[Memory], caller: Caller) -> Draft:
    body = body_of(reflection.points)
    return Draft(
        body=body,
        headline=derive_headline(normalise_line(reflection.headline) or body),
        kind=Kind.EPISODE,
        label=SUMMARY,
        project=of[0].project,
        scope=_scope(of[0], caller),
        trust=of[0].trust,
        confidence=_sure(of, text=body, kind=Kind.EPISODE),
        occurred_at=max(one.occurred_at for one in of),
        auto_captured=True,
        detail=EpisodeDetail(
            started_at=min(one.occurred_at for one in of),
            ended_at=max(one.occurred_at for one in of),
        ),
        derived_from=tuple(one.id for one in of),
    )


def _facts(claims: Sequence[Point], *, of: Sequence[Memory], caller: Caller) -> Iterator[Draft]:
    for claim in claims:
        sources = [of[place] for place in claim.of]
        yield Draft(
            body=claim.text,
            kind=Kind.FACT,
            label=SUMMARY,
            project=sources[0].project,
            scope=_scope(sources[0], caller),
            trust=sources[0].trust,
            confidence=_sure(sources, text=claim.text, kind=Kind.FACT),
            source_ref=next((one.source_ref for one in sources if one.source_ref), None),
            occurred_at=max(one.occurred_at for one in sources),
            auto_captured=True,
            is_candidate=True,
            derived_from=tuple(one.id for one in sources),
        )


def _sure(sources: Sequence[Memory], *, text: str, kind: Kind) -> float:
    """Give no more confidence than the sources have on average, and than the text bears."""
    is_sourced = any(one.source_ref for one in sources)
    own = confidence(kind, text, trust=sources[0].trust, is_sourced=is_sourced)
    return round(min(own, sum(one.confidence for one in sources) / len(sources)), 4)


def _scope(source: Memory, caller: Caller) -> Scope:
    # What is global was written by an admin; who reads it may tell the team.
    is_beyond = source.scope is Scope.GLOBAL and caller.role is not Role.ADMIN
    return Scope.TEAM if is_beyond else source.scope


def _speaker(memory: Memory) -> str | None:
    """Name who said a message, or did what an event tells of."""
    match memory.detail:
        case MessageDetail():
            name = memory.speaker
        case EventDetail(actor=actor):
            name = actor
        case _:
            name = None
    return None if name is None or name.casefold() in _ROLES else name
