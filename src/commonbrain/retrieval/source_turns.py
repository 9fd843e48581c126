"""What an item was derived from: the message and its thread, and the sentence that supports it.

A fact is shorter than what was said, and an agent that needs the rest should not ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.model.recall_result import SourceTurn
from commonbrain.model.timestamps import show_day
from commonbrain.text.repetition import adds_nothing, content_stems
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.tokens import estimate

_QUOTED: Final = frozenset({Kind.MESSAGE, Kind.EVENT})
"""Sources whose sentences are quoted; others are only named."""
_WITHOUT_QUOTE: Final = frozenset({Kind.MESSAGE, Kind.EVENT, Kind.EPISODE, Kind.ATOM})
"""A turn has its own text; an episode sums up many, and an atom repeats its source."""
_RECIPIENTS_MAX: Final = 3
_TOKENS_MAX: Final = 60
"""About two sentences; the item itself says what was asked for."""


def source_turn(memory: Memory, sources: Sequence[Memory], *, terms: Sequence[str]) -> SourceTurn:
    """Describe the best of some sources, with its sentences if they add to the memory."""
    known = content_stems(memory.text)
    best = max(
        sources,
        key=lambda one: (one.kind is Kind.MESSAGE, len(known & content_stems(one.text))),
    )
    text = ""
    if best.kind in _QUOTED and memory.kind not in _WITHOUT_QUOTE:
        text = inert_line(_sentences(best.body, sought=Sought([*sorted(known), *terms])))
    is_new = bool(text) and not adds_nothing(text, known=memory.text)
    detail = best.detail if isinstance(best.detail, MessageDetail) else MessageDetail()
    thread = detail.thread_id
    return SourceTurn(
        id=ids.show(ids.MEMORY, best.id),
        kind=best.kind,
        by=best.speaker or best.agent,
        to=_recipients(detail),
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
        date=show_day(best.occurred_at),
        has_others=len(sources) > 1 or None,
        text=text if is_new else None,
    )


def _recipients(message: MessageDetail) -> str | None:
    names, others = message.recipients[:_RECIPIENTS_MAX], len(message.recipients) - _RECIPIENTS_MAX
    return ", ".join(names) + (f" and {others} more" if others > 0 else "") or None


def _sentences(text: str, *, sought: Sought) -> str:
    """Return a short text, or the sentences of a longer one that say most of what is sought."""
    sample = text[:1000]
    chars = _TOKENS_MAX * len(sample) // max(1, estimate(sample))
    return text if len(text) <= chars else excerpt(text, sought, chars=chars)
