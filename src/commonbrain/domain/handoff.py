"""A handoff: what one session leaves to the next, in four parts, as one text that can be found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.limits import HANDOFF_CHARS_MAX, TEXT_BYTES_MAX
from commonbrain.domain.normalise import normalise, normalise_line
from commonbrain.domain.own_evidence import without_own_evidence

LABEL: Final = "handoff"
"""What an episode is labelled that hands over."""
_NEXT_STEPS: Final = "Next steps:"
_BLOCKERS: Final = "Blockers:"
_CONTEXT: Final = "Context:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff:
    """What was done, what comes next, what stands in the way, and what one has to know for it."""

    summary: str
    next_steps: Sequence[str] = ()
    blockers: Sequence[str] = ()
    context: str = ""
    is_automatic: bool = False
    """Whether nobody wrote it: it gives way to what an agent says itself."""


def text_of(handoff: Handoff) -> str:
    """Write a handoff as it is stored: its parts in order, those that say nothing left out.

    What a recall gave is taken out of each part.

    Raises:
        Invalid: there is no summary.
        Refused: `limit_exceeded`, it says more than 2,000 characters in all.

    """
    parts = (handoff.summary, *handoff.next_steps, *handoff.blockers, handoff.context)
    given = sum(map(len, parts))
    if given > TEXT_BYTES_MAX:
        # Not even read: the work done for a text must be in proportion to what is allowed.
        raise _too_long(given)
    summary = _prose(handoff.summary)
    if not summary:
        raise Invalid("A handoff has a summary.", hint="Say in a few sentences what was done.")
    text = "\n\n".join((summary, *_rest(handoff)))
    if len(text) > HANDOFF_CHARS_MAX:
        raise _too_long(len(text))
    return text


def _rest(handoff: Handoff) -> Iterator[str]:
    for heading, items in ((_NEXT_STEPS, handoff.next_steps), (_BLOCKERS, handoff.blockers)):
        told = [line for item in items if (line := normalise_line(without_own_evidence(item)))]
        if told:
            yield "\n".join((heading, *(f"- {line}" for line in told)))
    context = _prose(handoff.context)
    if context:
        yield f"{_CONTEXT}\n{context}"


def _prose(text: str) -> str:
    return normalise(without_own_evidence(normalise(text)))


def _too_long(chars: int) -> Refused:
    return Refused(
        f"The handoff has {chars:,} characters, {chars - HANDOFF_CHARS_MAX:,} more than the "
        f"{HANDOFF_CHARS_MAX:,} allowed.",
        code="limit_exceeded",
        hint="Shorten it: remember by itself what must be kept in full, and name its id.",
    )
