"""Hooks after a tool: show what fixed a failure before, and store what fixed it now."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from commonbrain.hooks.failure_log import (
    Attempt,
    Failed,
    FailedCommand,
    FailureLog,
    Passed,
    captures_failures,
)
from commonbrain.hooks.table import HOOKS
from commonbrain.ingestion.failures import (
    FAILURE_KEY,
    FAILURE_LABEL,
    FixedFailure,
    failure_in,
)
from commonbrain.ingestion.preparation import draft_of
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX
from commonbrain.model.scope import Authority, Scope
from commonbrain.model.values import dataclass, replace
from commonbrain.retrieval.failures import RecallForFailure
from commonbrain.runtime.settings_loading import load_settings, login_name
from commonbrain.text.failures import read_failure
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.normalisation import injected_block

if TYPE_CHECKING:
    from commonbrain.client import Brain
    from commonbrain.hooks.actions import HookRequest
    from commonbrain.model.memory import Memory

_TOKENS: Final = 120
"""What is added to the output of a failed command at most."""
_BLOCK_TOKENS: Final = 12
_READERS: Final = tuple(dict.fromkeys(client for client, _ in HOOKS))
"""The agents of one person's clients: what one of them learnt, the others and the person read."""
_HELPED: Final = "It was shown at a later failure, and the command then passed"


@dataclass(frozen=True, slots=True)
class FailureHook:
    """What a hook does after a command, for its client."""

    brain: Brain
    request: HookRequest

    def after_command(self) -> str | None:
        """Return what fixed the failure of a command before; store what fixed it if it passes."""
        location = self.brain.services.store.location
        captures = captures_failures(self.request.folder, os.environ, store=location)
        result = self._log.follow if captures else self._log.outcome
        match result(self.request.event):
            case Failed() as failed:
                return self._fix_of(failed)
            case Passed(command=command):
                self._learn(command)
            case None:
                pass
        return None

    @property
    def _log(self) -> FailureLog:
        return FailureLog(self.request.runs, self.request.event.session)

    @property
    def _recall(self) -> RecallForFailure:
        # A subagent does not see what its session was shown.
        is_subagent = bool(self.request.event.subagent)
        brain = self.brain.acting_as(session=None) if is_subagent else self.brain
        return RecallForFailure(brain.services, brain.caller)

    def _fix_of(self, failed: Failed) -> str | None:
        failure = read_failure(failed.excerpt)
        if failure is None:
            return None
        read = partial(self._recall, failure, max_tokens=_TOKENS - _BLOCK_TOKENS)
        services, caller = self.brain.services, self.brain.caller
        fix = services.audited(caller, action="recall for failure", read=read)
        if fix is None:
            return None
        self._log.mark_shown(failed.key, fix.id)
        return injected_block(fix.evidence)

    def _learn(self, command: FailedCommand) -> None:
        """Store each error of a command with its fix; what is known is confirmed instead."""
        # First, because the new version starts without a rating.
        for id_ in command.shown:
            self._share(id_)
        for attempt in command.fixed:
            fixed = _fixed(command, attempt)
            known = self._known(fixed)
            if known is None:
                self._store(fixed)
            elif known.session != self.brain.caller.session:
                self.brain.revise.rate(ids.show(ids.MEMORY, known.id), "up")

    def _known(self, fixed: FixedFailure) -> Memory | None:
        """Return the memory of the same failure with the same fix in this project."""
        failure = read_failure(fixed.excerpt)
        known = self._recall.known(failure) if failure else ()
        here = (one for one in known if one.project == self.brain.caller.project)
        return next((one for one in here if failure_in(one).has_fix_of(fixed)), None)

    def _store(self, fixed: FixedFailure) -> None:
        draft = draft_of(
            fixed.text,
            kind=Kind.INCIDENT,
            label=FAILURE_LABEL,
            headline=shorten_to_headline(fixed.headline),
            scope=Scope.PRIVATE,
            source_ref=(self.request.event.source_ref or "")[:SOURCE_REF_CHARS_MAX] or None,
            attachment=fixed.attachment,
        )
        if self.brain.services.guard is None:
            # On a server, agents of the same name may be other people's.
            person = load_settings().agent or login_name()
            readers = dict.fromkeys((*_READERS, person))
            readers.pop(self.brain.caller.agent, None)
            draft = replace(draft, audience=tuple(readers))
        self.brain.remember(draft)

    def _share(self, id_: str) -> None:
        """Let the team read a memory that helped; what is shared or gone stays as it is."""
        # It may have been forgotten or revised since it was shown.
        with suppress(CommonbrainError):
            memory = self.brain.get(id_, bump=False)
            is_captured = FAILURE_KEY in (memory.attachment or {})
            is_of_model = memory.authority is Authority.MODEL
            if memory.scope is Scope.PRIVATE and is_captured and is_of_model:
                self.brain.revise.supersede(
                    id_,
                    memory.body or "",
                    reason=_HELPED,
                    headline=memory.headline,
                    scope=Scope.TEAM,
                )


def _fixed(command: FailedCommand, attempt: Attempt) -> FixedFailure:
    steps = attempt.steps
    return FixedFailure(
        command=command.command,
        excerpt=attempt.excerpt,
        files=tuple(one.file for one in steps if one.file),
        commands=tuple(one.command for one in steps if one.command),
        lines=tuple(line for one in steps for line in one.lines),
    )
