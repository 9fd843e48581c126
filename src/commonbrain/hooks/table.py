"""`HOOKS`, the table: what each client tells us of, what is done then, and how it is answered.

To serve another event or client, add a row. It is read before anything else is loaded, so it names
deeds and does not hold them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, TypeAlias

from commonbrain.model.limits import (
    HOOK_PROMPT_TIMEOUT_S,
    HOOK_START_TIMEOUT_S,
    HOOK_WRITE_TIMEOUT_S,
)

HookReply: TypeAlias = Callable[[str], Mapping[str, object]]
"""How a client wants to be given text for its model."""


class HookAction(Enum):
    """What is done of an event."""

    BOOT = auto()
    """A session starts: what binds it, what is open and who is at work."""
    RECALL = auto()
    """A prompt was given: what is known about it."""
    CAPTURE = auto()
    """The agent has answered: what it decided is kept."""
    SUMMARISE = auto()
    """The conversation was compacted: its summary is kept."""
    END = auto()
    """The session is over."""


LIMITS_S: Final[Mapping[HookAction, tuple[str, float]]] = {
    HookAction.BOOT: ("COMMONBRAIN_HOOK_START_TIMEOUT_S", HOOK_START_TIMEOUT_S),
    HookAction.RECALL: ("COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S", HOOK_PROMPT_TIMEOUT_S),
    HookAction.CAPTURE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
    HookAction.SUMMARISE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
    HookAction.END: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
}
"""How long each may take from its start to its answer, and the setting that says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One event of one client."""

    client: str
    event: str
    """What it is called here, for every client the same."""
    native: str
    """What the client calls it."""
    action: HookAction
    answer: HookReply | None = None
    """None where the client takes nothing in."""


def _specific(native: str, text: str) -> Mapping[str, object]:
    return {"hookSpecificOutput": {"hookEventName": native, "additionalContext": text}}


def _additional(text: str) -> Mapping[str, object]:
    return {"additional_context": text}


def _continue_block(text: str) -> Mapping[str, object]:
    # Accepted by Cursor's program since 3.20, and in no page of its manual yet.
    return {"continue": True, "additional_context": text}


def _with_event_name(native: str) -> HookReply:
    return partial(_specific, native)


START: Final = "session-start"
PROMPT: Final = "user-prompt-submit"
STOP: Final = "stop"
COMPACTED: Final = "post-compact"
END: Final = "session-end"


def _row(
    client: str,
    event: str,
    *,
    native: str,
    action: HookAction,
    answer: HookReply | None = None,
) -> Hook:
    return Hook(client=client, event=event, native=native, action=action, answer=answer)


def _like_claude(client: str, event: str, *, native: str, action: HookAction) -> Hook:
    return _row(client, event, native=native, action=action, answer=_with_event_name(native))


_ROWS: Final = (
    _like_claude("claude-code", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("claude-code", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    _row("claude-code", STOP, native="Stop", action=HookAction.CAPTURE),
    _row("claude-code", COMPACTED, native="PostCompact", action=HookAction.SUMMARISE),
    _row("claude-code", END, native="SessionEnd", action=HookAction.END),
    # Codex tells of no summary after a compaction and of no end of a session.
    _like_claude("codex", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("codex", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    _row("codex", STOP, native="Stop", action=HookAction.CAPTURE),
    _row("cursor", START, native="sessionStart", action=HookAction.BOOT, answer=_additional),
    _row(
        "cursor",
        PROMPT,
        native="beforeSubmitPrompt",
        action=HookAction.RECALL,
        answer=_continue_block,
    ),
    # Its stop event does not tell what was said.
    _row("cursor", STOP, native="afterAgentResponse", action=HookAction.CAPTURE),
    _row("cursor", END, native="sessionEnd", action=HookAction.END),
    _like_claude("gemini", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("gemini", PROMPT, native="BeforeAgent", action=HookAction.RECALL),
    _row("gemini", STOP, native="AfterAgent", action=HookAction.CAPTURE),
    _row("gemini", END, native="SessionEnd", action=HookAction.END),
)

HOOKS: Final[Mapping[tuple[str, str], Hook]] = {(row.client, row.event): row for row in _ROWS}
