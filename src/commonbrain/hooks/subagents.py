"""What hooks show a subagent: the rules that bind it, and what bears upon its task."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from commonbrain.coordination.briefing import sections
from commonbrain.hooks.tool_use import BLOCK_TOKENS, INFORMING, truncated
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.escaping import inert_line
from commonbrain.text.normalisation import injected_block
from commonbrain.text.tokens import upper_bound

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.hooks.table import HookEvent
    from commonbrain.model.recall_result import RecallResult

_HEADLINES_TOKENS: Final = 100
"""Of the primer, for what bears upon the task."""


def note_task(
    brain: Brain, event: HookEvent, *, recall: Callable[[Brain, str], RecallResult | None]
) -> None:
    """Note what bears upon the task of a subagent that an agent asks for."""
    from commonbrain.coordination.subagents import PendingSubagents  # noqa: PLC0415

    # The subagent sees nothing that its session was shown.
    result = recall(brain.acting_as(session=None), event.task)
    known = [one.id for one in result.items] if result else []
    PendingSubagents(brain.services, brain.caller).add(event.subagent_type, known)


def show_primer(
    brain: Brain,
    event: HookEvent,
    *,
    names: Collection[str],
    max_tokens: int,
) -> str | None:
    """Return some sections of a briefing, and the headlines of what bears upon the task."""
    lines = _task_lines(brain, event) if event.session else []
    lines = truncated(lines, _HEADLINES_TOKENS, more="recall")
    budget = max_tokens - BLOCK_TOKENS - sum(upper_bound(line) + 1 for line in lines)
    notice, *rules = [
        line
        for name, each in sections(brain.preview_boot())
        if name in names or name == "notice"
        for line in each
    ]
    if rules:
        lines = [*truncated([notice, *rules], budget, more="brain boot"), *lines]
    return injected_block("\n".join(lines)) if lines else None


def _task_lines(brain: Brain, event: HookEvent) -> list[str]:
    from commonbrain.coordination.subagents import (  # noqa: PLC0415
        PendingSubagents,
        ShownToSubagent,
    )

    pending = PendingSubagents(brain.services, brain.caller)
    known: list[str] = []
    # It is shown what binds even if the store is locked, or a memory was forgotten meanwhile.
    with suppress(CommonbrainError):
        taken = pending.take(event.subagent_type)
        read = partial(brain.get_several, taken)
        views = brain.services.audited(brain.caller, action="get", read=read) if taken else ()
        known = [f"> {one.kind.upper()} {one.id}: {inert_line(one.headline)}" for one in views]
        ShownToSubagent(brain.services, brain.caller, event.subagent).add(taken)
    return [INFORMING, *known] if known else []
