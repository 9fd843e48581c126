"""Hooks after a command: show what fixed its failure before, and store what fixed it now."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from commonbrain.hooks.table import HOOKS
from commonbrain.hooks.tool_use import BLOCK_TOKENS
from commonbrain.ingestion.failures import FAILURE_KEY, FAILURE_LABEL, failure_in
from commonbrain.ingestion.preparation import draft_of
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX
from commonbrain.model.scope import Authority, Scope
from commonbrain.model.values import replace
from commonbrain.retrieval.failures import RecallForFailure
from commonbrain.runtime.settings_loading import load_settings, login_name
from commonbrain.text.failures import read_failure
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.normalisation import injected_block

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.hooks.table import HookEvent
    from commonbrain.ingestion.failures import FixedFailure
    from commonbrain.model.memory import Memory

_TOKENS: Final = 120
"""What is added to the output of a failed command at most."""
_READERS: Final = tuple(dict.fromkeys(client for client, _ in HOOKS))
"""The agents of one person's clients: what one of them learnt, the others and the person read."""
_HELPED: Final = "It was shown at a later failure, and the command then passed"


def show_fix(brain: Brain, event: HookEvent) -> str | None:
    """Return what fixed the failure of a command before."""
    failure = read_failure(event.failed)
    if failure is None:
        return None
    # A subagent does not see what its session was shown.
    view = brain.acting_as(session=None) if event.subagent else brain
    recall = RecallForFailure(view.services, view.caller)
    read = partial(recall, failure, max_tokens=_TOKENS - BLOCK_TOKENS)
    fix = brain.services.audited(brain.caller, action="recall for failure", read=read)
    return injected_block(fix.evidence) if fix else None


def learn_fixes(brain: Brain, event: HookEvent) -> None:
    """Store each error of a command with its fix; what is known is confirmed instead."""
    # First, because the new version starts without a rating.
    for id_ in event.helped:
        _share(brain, id_)
    for fixed in event.fixed:
        known = _known(brain, fixed)
        if known is None:
            _store(brain, fixed, source=event.source_ref)
        elif known.session != brain.caller.session:
            brain.revise.rate(ids.show(ids.MEMORY, known.id), "up")


def _known(brain: Brain, fixed: FixedFailure) -> Memory | None:
    """Return the memory of the same failure with the same fix in this project."""
    failure = read_failure(fixed.excerpt)
    known = RecallForFailure(brain.services, brain.caller).known(failure) if failure else ()
    here = (one for one in known if one.project == brain.caller.project)
    return next((one for one in here if failure_in(one).has_fix_of(fixed)), None)


def _store(brain: Brain, fixed: FixedFailure, *, source: str | None) -> None:
    draft = draft_of(
        fixed.text,
        kind=Kind.INCIDENT,
        label=FAILURE_LABEL,
        headline=shorten_to_headline(fixed.headline),
        scope=Scope.PRIVATE,
        source_ref=(source or "")[:SOURCE_REF_CHARS_MAX] or None,
        attachment=fixed.attachment,
    )
    if brain.services.guard is None:
        # On a server, agents of the same name may be other people's.
        person = load_settings().agent or login_name()
        readers = dict.fromkeys((*_READERS, person))
        readers.pop(brain.caller.agent, None)
        draft = replace(draft, audience=tuple(readers))
    brain.remember(draft)


def _share(brain: Brain, id_: str) -> None:
    """Let the team read a memory that helped in its project; what is shared or gone stays."""
    # It may have been forgotten or revised since it was shown.
    with suppress(CommonbrainError):
        memory = brain.get(id_, bump=False)
        is_captured = FAILURE_KEY in (memory.attachment or {})
        is_of_model = memory.authority is Authority.MODEL
        is_near = memory.project is not None and memory.project == brain.caller.project
        if memory.scope is Scope.PRIVATE and is_captured and is_of_model and is_near:
            brain.revise.supersede(
                id_,
                memory.body or "",
                reason=_HELPED,
                headline=memory.headline,
                scope=Scope.TEAM,
            )
