"""The actions of hooks.

`ACTIONS` is the table. Each returns text for the client's model, or None.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from commonbrain.api.project_folder import AT_ONCE, FolderConfig, find_folder_config
from commonbrain.client import Brain
from commonbrain.clock import UNTIL
from commonbrain.config import Settings
from commonbrain.coordination.briefing import sections
from commonbrain.coordination.session_registry import detect_client, touch_session
from commonbrain.embeddings.interface import LocalModel
from commonbrain.hooks.subagents import note_task, show_primer
from commonbrain.hooks.table import (
    Hook,
    HookAction,
    HookEvent,
    find_hook,
    read_event,
    with_found,
)
from commonbrain.hooks.tool_use import show_for_command, show_for_edit, truncated
from commonbrain.model import ids, limits
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, kinds_where
from commonbrain.model.recall_result import RecallResult
from commonbrain.model.scope import Authority, Role, Trust
from commonbrain.model.sessions import ClientInfo
from commonbrain.observability.hook_runs import (
    BY_WORDS,
    HOOK_TRANSPORT,
    HookRuns,
    ShownCounts,
    hook_tool,
)
from commonbrain.observability.tool_events import OK, ToolEvent
from commonbrain.retrieval.plan import NO_OVERRIDES, RecallOptions, RetrievalOverrides
from commonbrain.retrieval.proactive import forget_shown
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.retrieve import VECTOR
from commonbrain.runtime.bootstrap import brain_of, open_brain
from commonbrain.runtime.local_requests import LocalHost, services_for
from commonbrain.runtime.local_socket import JsonObject
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.security.guard import unshown
from commonbrain.text.normalisation import injected_block
from commonbrain.text.prompts import is_trivial, typed_text

_LOG: Final = logging.getLogger(__name__)
_ITEMS_MAX: Final = 3
"""Few, because the user did not ask for them."""
_HEARTBEAT_ACTIONS: Final = frozenset(
    {
        HookAction.RECALL,
        HookAction.TOOL,
        HookAction.TOOL_USED,
        HookAction.PRIME,
        HookAction.CAPTURE,
        HookAction.SUMMARISE,
    }
)
"""The other actions start or end the session, which counts as a heartbeat."""
_TIME_CRITICAL: Final = frozenset(
    {
        HookAction.BOOT,
        HookAction.RECALL,
        HookAction.TOOL,
        HookAction.TOOL_USED,
        HookAction.PRIME,
    }
)
_RULES: Final = frozenset({"notice", "blockers", "skills", "more"})
"""The sections of a briefing that are shown where a folder switches hooks off."""
_PRIMER: Final = frozenset({"notice", "blockers", "skills", "patterns"})
"""The sections of a briefing that a subagent is shown."""
_BY_WORDS: Final = RetrievalOverrides(without=frozenset({VECTOR}))
_MAINTENANCE_S_MAX: Final = 2.0
"""Enough for a day of one agent; the rest is done after the next session."""
_COMPACTED: Final = "compact"
_WAIT_S_MIN: Final = 0.01
_WAIT_S_MAX: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    """An action to run for a client, and its deadline."""

    hook: Hook
    event: HookEvent
    folder: FolderConfig
    agent: str
    remaining_s: Callable[[], float]
    tokens: int = 0
    """Budget for the memories that are added, from the settings."""
    runs: HookRuns = field(default_factory=HookRuns)
    """The files that sessions have searched for."""
    has_worker: bool = False
    """Whether this process has a worker, which maintains the store."""
    loads_model: bool = True
    """Whether recall may load the model, for which this client waits."""
    is_of_user: bool = False
    """Whether the client shows that its user attends it, and that no agent runs this hook."""


def run_action(
    request: HookRequest, store: Path | None, *, show: Callable[[str | None], None]
) -> None:
    """Run a hook's action in a store of its own, and show its text for the client's model.

    The text is shown before the store is closed, because other writers may hold that up.

    Args:
        request: the action.
        store: the store; that of the settings by default.
        show: called once with the text; None if there is none.

    Raises:
        CommonbrainError: the action failed.

    """
    settings = load_settings()
    if not settings.hooks:
        return
    timeout_s = _lock_timeout_s(request)
    with open_brain(store, lock_timeout_s=timeout_s, agent=request.agent) as base_brain:
        _run_as_client(base_brain, request, settings=settings, show=show)


def answer_hook(host: LocalHost, call: JsonObject) -> JsonObject:
    """Run the action of a hook in another process, as `hooks.runner` describes it.

    It acts with the settings of that process, never as the client that this one serves, and writes
    nothing after the deadline. The answer has the text for the client's model, or the error.
    """
    until = monotonic() + float(call["remaining_s"])
    UNTIL.set(until)
    try:
        request = HookRequest(
            hook=_hook_of(call),
            event=(event := with_found(read_event(str(call["input"]).encode()), call["found"])),
            folder=find_folder_config(
                event.folder or Path(call["cwd"] or os.sep), state=Path(call["runs"])
            ),
            agent=call["agent"],
            remaining_s=lambda: max(0.0, until - monotonic()),
            runs=HookRuns(Path(call["runs"])),
            has_worker=host.has_worker,
            is_of_user=bool(call["is_of_user"]),
        )
        settings = load_settings()
        services = services_for(host.brain.services, call)
        base_brain = brain_of(services, settings, agent=request.agent)
        shown: list[str | None] = []
        _run_as_client(base_brain, request, settings=settings, show=shown.append)
        return {"text": shown[0]}
    except CommonbrainError as error:
        return {"code": error.code, "error": str(error)}
    except Exception as error:  # noqa: BLE001
        # The hook would repeat the action, and its user would see no cause.
        _LOG.exception("a hook failed")
        return {"code": "internal", "error": f"An internal error occurred: {type(error).__name__}."}


def _hook_of(call: JsonObject) -> Hook:
    hook = find_hook(call["client"], call["event"], is_detached=bool(call["is_detached"]))
    if hook is None:
        raise InvalidInputError("Unknown hook.")
    return hook


def _run_as_client(
    base_brain: Brain,
    request: HookRequest,
    *,
    settings: Settings,
    show: Callable[[str | None], None],
) -> None:
    brain = base_brain.acting_as(project=settings.project or request.folder.project)
    brain, request = limited_to_hooks(brain.identified(), request, settings=settings)
    if request.hook.action is HookAction.RECALL:
        # First the answer: finding the client among the processes takes as long as recall.
        try:
            show(perform(brain, request))
        finally:
            _connected(brain, request)
    else:
        show(perform(_connected(brain, request), request))


def limited_to_hooks(
    brain: Brain, request: HookRequest, *, settings: Settings
) -> tuple[Brain, HookRequest]:
    """Return the brain in the session of an event and with the rights of a hook, and its budget."""
    brain = brain.acting_as(
        session=request.event.session or None,
        contact=ClientInfo(cwd=str(request.event.folder) if request.event.folder else None),
        # A model wrote the captured text: it cannot claim more trust than its user.
        trust_ceiling=Trust.USER_CLAIM,
        role=Role.WRITER,
        authority=_authority_of(request),
    )
    tokens = {
        HookAction.RECALL: settings.hook_prompt_tokens,
        HookAction.TOOL: settings.hook_edit_tokens,
        HookAction.TOOL_USED: settings.hook_edit_tokens,
        HookAction.PRIME: limits.HOOK_PRIMER_TOKENS,
    }
    return brain, replace(request, tokens=tokens.get(request.hook.action, 0))


def _authority_of(request: HookRequest) -> Authority:
    """Return a person's authority for what a user surely typed, if such words are stored at once.

    What agents say, and prompts that may be of an agent, have that of a model.
    """
    is_note = request.hook.action is HookAction.NOTE and request.is_of_user
    is_at_once = is_note and request.folder.capture == AT_ONCE
    return Authority.PERSON if is_at_once else Authority.MODEL


def _connected(brain: Brain, request: HookRequest) -> Brain:
    """Return the brain of the client, and record a heartbeat of its session."""
    contact = detect_client(brain.services, client=request.hook.client)
    brain = brain.acting_as(contact=contact)
    if brain.caller.session and request.hook.action in _HEARTBEAT_ACTIONS:
        touch_session(brain.services, brain.caller)
    return brain


def perform(brain: Brain, request: HookRequest) -> str | None:
    """Run a hook's action, and record what it showed."""
    services = brain.services
    at, since_ms = services.clock.now(), services.clock.elapsed_ms()
    outcome = "internal"
    text = None
    try:
        with nullcontext() if request.hook.answer else unshown():
            text = ACTIONS[request.hook.action](brain, request)
        outcome = OK
    except CommonbrainError as error:
        outcome = error.code
        raise
    finally:
        services.journal.note(
            ToolEvent(
                id=ids.make_id(at, services.random_source.bits(ids.RANDOM_BITS)),
                tenant=brain.caller.tenant,
                at=at,
                session=brain.caller.session,
                agent=brain.caller.agent,
                tool=hook_tool(request.hook.client, request.hook.event),
                transport=HOOK_TRANSPORT,
                duration_ms=round(services.clock.elapsed_ms() - since_ms, 3),
                outcome=outcome,
                args=ShownCounts.of(text or "").args,
            )
        )
    return text


def _lock_timeout_s(request: HookRequest) -> float:
    """Return how long to wait for other writers; at most 1 s while a client waits."""
    remaining_s = max(request.remaining_s(), _WAIT_S_MIN)
    return (
        min(remaining_s / 4, _WAIT_S_MAX) if request.hook.action in _TIME_CRITICAL else remaining_s
    )


def _boot(brain: Brain, request: HookRequest) -> str:
    """Start the session; returns the briefing for its agent.

    After a compaction it includes the session's working notes, which the conversation has lost. If
    the folder switches hooks off, the rules that bind are shown, and no session starts.
    """
    notices = [inert_line(notice) for notice in request.folder.notices]
    if not request.folder.has_hooks:
        preview = brain.preview_boot()
        shown = [one for name, lines in sections(preview) if name in _RULES for one in lines]
        return injected_block("\n".join([*shown, *notices]))
    if not request.event.is_resumed:
        _forget_shown(brain, request)
    parts = [brain.boot(client=request.hook.client).text, *notices]
    if request.event.cause == _COMPACTED and brain.caller.session:
        own = (one for one in brain.session.notes().notes or () if not one.pinned)
        lines = [f"> {inert_line(one.key)}: {inert_line(one.value)}" for one in own]
        if lines:
            fitting = truncated(lines, limits.HOOK_NOTES_TOKENS, more="session notes")
            parts += ["Your working notes:", *fitting]
    return injected_block("\n".join(parts))


def _forget_shown(brain: Brain, request: HookRequest) -> None:
    """Let the session be shown everything again, since its conversation was lost."""
    forget_shown(brain.services, brain.caller)
    request.runs.forget(request.event.session)


def _recall(brain: Brain, request: HookRequest) -> str | None:
    """Return memories that bear upon a prompt and were not shown in its session."""
    result = _recall_in_time(brain, request.event.prompt, request=request)
    return injected_block(result.evidence) if result and result.items else None


def _recall_in_time(brain: Brain, text: str, *, request: HookRequest) -> RecallResult | None:
    """Recall for a text; by words alone if the model is not loaded and others will have it soon."""
    deadline_ms = max(1.0, request.remaining_s() * 1000)
    embedder = brain.services.embedder
    is_cold = isinstance(embedder, LocalModel) and not embedder.is_loaded
    by_words = is_cold and not request.loads_model
    result = recall_for_prompt(
        brain,
        text,
        max_tokens=request.tokens,
        deadline_ms=deadline_ms,
        overrides=_BY_WORDS if by_words else NO_OVERRIDES,
    )
    if by_words:
        request.runs.count(request.hook.client, request.hook.event, outcome=BY_WORDS)
    return result


def recall_for_prompt(
    brain: Brain,
    prompt: str,
    *,
    max_tokens: int,
    deadline_ms: float | None = None,
    overrides: RetrievalOverrides = NO_OVERRIDES,
) -> RecallResult | None:
    """Recall what to show with a prompt; None if it gives nothing to search for."""
    text = typed_text(prompt)
    if is_trivial(text):
        return None
    options = RecallOptions(
        project=brain.caller.project,
        kinds=kinds_where(lambda policy: policy.answers_prompts),
        max_items=_ITEMS_MAX,
        max_tokens=max_tokens,
        deadline_ms=deadline_ms,
        proactive=True,
    )
    recall = Recall(brain.services, brain.caller, overrides)
    read = partial(recall, text[: limits.QUERY_CHARS_MAX], **options)
    return brain.services.audited(brain.caller, action="recall", read=read)


def _tool(brain: Brain, request: HookRequest) -> str | None:
    """Return memories that name what a tool edits or runs; note those for a subagent's task."""
    event, runs, tokens = request.event, request.runs, request.tokens
    if event.task:
        note_task(brain, event, recall=partial(_recall_in_time, request=request))
        return None
    if event.files:
        return show_for_edit(brain, event, runs=runs, max_tokens=tokens)
    is_off = not request.folder.has_hooks
    return show_for_command(brain, event, runs=runs, max_tokens=tokens, has_only_blockers=is_off)


def _after_tool(brain: Brain, request: HookRequest) -> str | None:
    """After a failure, return what fixed it before; after an edit, memories that name its code.

    After a command that had failed, store what fixed it.
    """
    from commonbrain.hooks.failures import learn_fixes, show_fix  # noqa: PLC0415 see `_capture`

    event = request.event
    if event.files:
        return _tool(brain, request)
    if event.fixed and request.folder.capture == AT_ONCE:
        learn_fixes(brain, event)
    return show_fix(brain, event) if event.failed else None


def _prime(brain: Brain, request: HookRequest) -> str | None:
    """Return what binds a subagent and bears upon its task; no session starts."""
    names = _PRIMER if request.folder.has_hooks else _RULES
    return show_primer(brain, request.event, names=names, max_tokens=request.tokens)


def _capture(brain: Brain, request: HookRequest) -> None:
    """Store the lasting statements in the agent's last message.

    Rejected statements are not reported.
    """
    from commonbrain.ingestion.preparation import DraftFields  # noqa: PLC0415 not for a prompt
    from commonbrain.text.capture import select_captured  # noqa: PLC0415

    mode = request.folder.capture
    fields = DraftFields(auto_captured=True)
    if mode == AT_ONCE:
        fields["kind"] = Kind.EVENT
    if request.event.source_ref:
        fields["source_ref"] = request.event.source_ref[: limits.SOURCE_REF_CHARS_MAX]
    for text in select_captured(request.event.reply, mode):
        brain.remember(text, chunks=False, **fields)


def _note(brain: Brain, request: HookRequest) -> None:
    """Store what the user said that is to last, or propose it."""
    from commonbrain.ingestion.user_statements import store_statements  # noqa: PLC0415 see `_capture`

    if request.folder.capture != "off":
        event = request.event
        store_statements(brain.remember, event.statements, source=event.source_ref)


def _summarise(brain: Brain, request: HookRequest) -> None:
    """Store the summary of a compacted conversation for later sessions."""
    from commonbrain.text.capture import both_ends  # noqa: PLC0415 see `_capture`

    _forget_shown(brain, request)
    if both_ends(request.event.summary) and request.event.session:
        brain.session.sum_up(request.event.summary)


def _end(brain: Brain, request: HookRequest) -> None:
    """End the session; if its agent left no handoff, its last event becomes the summary."""
    from commonbrain.coordination.handoff import LABEL  # noqa: PLC0415 see `_capture`

    captures = request.folder.capture != "off"
    if captures and not _newest_of_session(brain, (Kind.EPISODE,), labels=(LABEL,)):
        for last in _newest_of_session(brain, (Kind.EVENT,)):
            brain.session.sum_up(last)
    brain.session.end()
    if request.has_worker:
        return
    # Jobs take a second to import, and no other hook uses them.
    from commonbrain.jobs.worker import run_maintenance_slice  # noqa: PLC0415

    # No user waits for this process, so it maintains a store that has no server.
    run_maintenance_slice(
        brain.services, seconds=min(request.remaining_s() / 2, _MAINTENANCE_S_MAX)
    )


def _newest_of_session(
    brain: Brain, kinds: Sequence[Kind], *, labels: Sequence[str] = ()
) -> list[str]:
    """Return the full text of the session's newest memory of some kinds, in a list; or none."""
    caller = brain.caller
    newest = RecallOptions(
        kinds=kinds,
        labels=labels,
        agent=caller.agent,
        session=caller.session,
        trust_min=0,
        max_items=1,
        bump=False,
    )
    return [one.body or "" for one in brain.recall("", **newest).items]


ACTIONS: Final[Mapping[HookAction, Callable[[Brain, HookRequest], str | None]]] = {
    HookAction.BOOT: _boot,
    HookAction.RECALL: _recall,
    HookAction.TOOL: _tool,
    HookAction.TOOL_USED: _after_tool,
    HookAction.PRIME: _prime,
    HookAction.NOTE: _note,
    HookAction.CAPTURE: _capture,
    HookAction.SUMMARISE: _summarise,
    HookAction.END: _end,
}
