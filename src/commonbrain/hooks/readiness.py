"""What an event asks of the memory, before slow imports: most events ask nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from commonbrain.api.project_folder import FolderConfig
from commonbrain.hooks.table import HOOKS, SHOWS_RULES, TOOL, Hook, HookAction, HookEvent
from commonbrain.observability.hook_runs import HookRuns
from commonbrain.runtime.callers import runs_for_agent, store_may_mention
from commonbrain.text.code_names import read_edit
from commonbrain.text.prompts import is_trivial, typed_text

if TYPE_CHECKING:
    from pathlib import Path

    from commonbrain.text.user_statements import UserStatement


def is_idle(
    hook: Hook, event: HookEvent, *, folder: FolderConfig, store: str | Path | None, runs: HookRuns
) -> bool:
    """Return whether there is nothing to do, before slow imports."""
    if not folder.has_hooks and hook.action not in SHOWS_RULES:
        return True
    match hook.action:
        case HookAction.BOOT | HookAction.PRIME:
            is_needed = True
        case HookAction.RECALL:
            is_needed = not is_trivial(typed_text(event.prompt))
        case HookAction.TOOL:
            is_needed = _is_before_known(event, folder=folder, store=store, runs=runs)
        case HookAction.TOOL_USED:
            # Other clients were shown what is known of a file before the edit.
            is_shown_after = bool(event.files) and (hook.client, TOOL) not in HOOKS
            is_needed = bool(event.failed or event.fixed) or (
                is_shown_after and _is_worth_a_search(event, store=store, runs=runs)
            )
        case HookAction.NOTE:
            is_needed = bool(event.statements)
        case HookAction.CAPTURE:
            # A prompt is time-critical and does not need this import.
            from commonbrain.text.capture import select_captured  # noqa: PLC0415

            is_needed = bool(select_captured(event.reply, folder.capture))
        case HookAction.SUMMARISE:
            is_captured = folder.capture != "off"
            is_needed = is_captured and not is_trivial(event.summary)
        case HookAction.END:
            is_needed = bool(event.session)
    return not is_needed


def _is_before_known(
    event: HookEvent, *, folder: FolderConfig, store: str | Path | None, runs: HookRuns
) -> bool:
    """Return whether a store may know something of a task, an edit or a command."""
    if event.task:
        return folder.has_hooks and not is_trivial(typed_text(event.task))
    if event.files:
        return folder.has_hooks and _is_worth_a_search(event, store=store, runs=runs)
    return _may_name_command(event, store=store, runs=runs)


def with_findings(
    hook: Hook, event: HookEvent, *, folder: FolderConfig, store: str | Path | None, runs: HookRuns
) -> HookEvent:
    """Return an event with what is found in it here: failures, fixes, what the user says.

    The log of failures, and a prompt that is read for what is to last, stay on this machine.
    """
    if not folder.has_hooks:
        return event
    match hook.action:
        case HookAction.TOOL_USED | HookAction.END:
            # Only these hooks need the import.
            from commonbrain.hooks.failure_log import (  # noqa: PLC0415
                FailureLog,
                captures_failures,
            )

            log = FailureLog(runs, event.session)
            if hook.action is HookAction.TOOL_USED:
                is_recorded = captures_failures(folder, os.environ, store=store)
                return log.follow(event, is_recorded=is_recorded)
            log.forget()
        case HookAction.NOTE:
            is_off = runs_for_agent(os.environ) or folder.capture == "off"
            return event if is_off else replace(event, statements=_said_in(event.prompt))
        case _:
            pass
    return event


def _said_in(prompt: str) -> tuple[UserStatement, ...]:
    """Return what the user says that is to last, without what has a secret.

    Of a prompt of several paragraphs some may be pasted, so that nothing in it is explicit.
    """
    # Only prompts that may say so load the rules of English.
    from commonbrain.hooks.failure_log import screened  # noqa: PLC0415
    from commonbrain.text.user_statements import statements_in  # noqa: PLC0415

    is_typed = "\n" not in typed_text(prompt).strip()
    return tuple(
        replace(one, is_explicit=one.is_explicit and is_typed)
        for one in statements_in(prompt)
        if screened(one.text) == one.text
    )


def _is_worth_a_search(event: HookEvent, *, store: str | Path | None, runs: HookRuns) -> bool:
    """Return whether a store may name the code of an edit whose files are new to the session."""
    files = tuple(one for one in event.files if not runs.has_searched(event.conversation, one))
    if not files:
        return False
    code = read_edit(files, event.edited, folder=str(event.folder or ""))
    return store_may_mention(store, code.terms, environment=os.environ)


def _may_name_command(event: HookEvent, *, store: str | Path | None, runs: HookRuns) -> bool:
    """Return whether a store may name a command that is new to the conversation.

    A store that names none is not asked again, except about commits, deploys and the like.
    """
    # Only this hook needs the import.
    from commonbrain.text.commands import read_commands  # noqa: PLC0415

    commands = [
        one
        for one in read_commands(event.command)
        # Rules on commits, deploys and the like may be stored at any time.
        if one.kinds or not runs.has_searched(event.conversation, one.key)
    ]
    phrases = list(dict.fromkeys(one for command in commands for one in command.phrases))
    is_named = bool(phrases) and store_may_mention(store, phrases, environment=os.environ)
    if commands and not is_named:
        keys = tuple(one.key for one in commands if not one.kinds)
        runs.mark_searched(event.conversation, keys)
    return is_named


def shows_rules(hook: Hook, command: str) -> bool:
    """Return whether rules that bind may be missing: of commands, those that rules are about."""
    if hook.action is not HookAction.TOOL:
        return hook.action in SHOWS_RULES
    from commonbrain.text.commands import read_commands  # noqa: PLC0415 see above

    return any(one.kinds for one in read_commands(command))
