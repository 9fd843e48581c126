"""`HOOKS` is the table: each client's events, their actions and the format of the reply.

To support another event or client, add a row. The module is imported before anything heavy, so it
names actions and does not import them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import (
    HOOK_EDIT_TIMEOUT_S,
    HOOK_PROMPT_TIMEOUT_S,
    HOOK_START_TIMEOUT_S,
    HOOK_WRITE_TIMEOUT_S,
    NAME_CHARS_MAX,
)
from commonbrain.text.code_names import patched_files

HookReply: TypeAlias = Callable[[str], Mapping[str, object]]
"""Formats text for the client's model."""


class HookAction(Enum):
    """The action of an event."""

    BOOT = auto()
    """A session starts: return its briefing."""
    RECALL = auto()
    """The user sends a prompt: return related memories."""
    EDIT = auto()
    """The agent has edited files: return memories that name them."""
    CHECK = auto()
    """The agent commits: return the rules that bind the commit."""
    CAPTURE = auto()
    """The agent has answered: store its decisions."""
    SUMMARISE = auto()
    """The conversation was compacted: store its summary."""
    END = auto()
    """The session ends."""


SHOWS_RULES: Final = frozenset({HookAction.BOOT, HookAction.CHECK})
"""The actions that show BLOCKERs, which the files of a folder cannot switch off."""
LIMITS_S: Final[Mapping[HookAction, tuple[str, float]]] = {
    HookAction.BOOT: ("COMMONBRAIN_HOOK_START_TIMEOUT_S", HOOK_START_TIMEOUT_S),
    HookAction.RECALL: ("COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S", HOOK_PROMPT_TIMEOUT_S),
    HookAction.EDIT: ("COMMONBRAIN_HOOK_EDIT_TIMEOUT_S", HOOK_EDIT_TIMEOUT_S),
    HookAction.CHECK: ("COMMONBRAIN_HOOK_EDIT_TIMEOUT_S", HOOK_EDIT_TIMEOUT_S),
    HookAction.CAPTURE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
    HookAction.SUMMARISE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
    HookAction.END: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", HOOK_WRITE_TIMEOUT_S),
}
"""The timeout of each action, with the setting that changes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One event of one client."""

    client: str
    event: str
    """The event's name in Commonbrain, the same for every client."""
    native: str
    """The event's name in the client."""
    action: HookAction
    answer: HookReply | None = None
    """None if the client accepts no reply."""
    warns: bool = False
    """Whether the client shows its user a `systemMessage`."""
    tools: str = ""
    """Regular expression of the client's tools for which it calls the hook; empty for others."""
    condition: str = ""
    """Limits the calls further, in the client's syntax of permissions; older ones ignore it."""


def _specific(native: str, text: str) -> Mapping[str, object]:
    return {"hookSpecificOutput": {"hookEventName": native, "additionalContext": text}}


def _additional(text: str) -> Mapping[str, object]:
    return {"additional_context": text}


def _continue_block(text: str) -> Mapping[str, object]:
    # Cursor accepts it since 3.20, but does not document it.
    return {"continue": True, "additional_context": text}


START: Final = "session-start"
PROMPT: Final = "user-prompt-submit"
EDITED: Final = "file-edited"
COMMIT: Final = "before-commit"
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
    return _row(client, event, native=native, action=action, answer=partial(_specific, native))


def _capture(client: str, *, native: str) -> Hook:
    return Hook(client=client, event=STOP, native=native, action=HookAction.CAPTURE, warns=True)


_ROWS: Final = (
    _like_claude("claude-code", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("claude-code", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    Hook(
        client="claude-code",
        event=EDITED,
        native="PostToolUse",
        action=HookAction.EDIT,
        answer=partial(_specific, "PostToolUse"),
        tools="Edit|Write|MultiEdit|NotebookEdit",
    ),
    # It does not decide: without a decision, the client's own permissions apply as ever.
    Hook(
        client="claude-code",
        event=COMMIT,
        native="PreToolUse",
        action=HookAction.CHECK,
        answer=partial(_specific, "PreToolUse"),
        tools="Bash",
        condition="Bash(*git*commit*)",
    ),
    _capture("claude-code", native="Stop"),
    _row("claude-code", COMPACTED, native="PostCompact", action=HookAction.SUMMARISE),
    _row("claude-code", END, native="SessionEnd", action=HookAction.END),
    # Codex has no event with the summary of a compaction, and none for the end of a session.
    _like_claude("codex", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("codex", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    Hook(
        client="codex",
        event=EDITED,
        native="PostToolUse",
        action=HookAction.EDIT,
        answer=partial(_specific, "PostToolUse"),
        tools="apply_patch",
    ),
    _capture("codex", native="Stop"),
    _row("cursor", START, native="sessionStart", action=HookAction.BOOT, answer=_additional),
    _row(
        "cursor",
        PROMPT,
        native="beforeSubmitPrompt",
        action=HookAction.RECALL,
        answer=_continue_block,
    ),
    # Cursor's stop event does not contain the message.
    _row("cursor", STOP, native="afterAgentResponse", action=HookAction.CAPTURE),
    _row("cursor", END, native="sessionEnd", action=HookAction.END),
    _like_claude("gemini", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("gemini", PROMPT, native="BeforeAgent", action=HookAction.RECALL),
    Hook(
        client="gemini",
        event=EDITED,
        native="AfterTool",
        action=HookAction.EDIT,
        answer=partial(_specific, "AfterTool"),
        tools="write_file|replace",
    ),
    _capture("gemini", native="AfterAgent"),
    _row("gemini", END, native="SessionEnd", action=HookAction.END),
    # Payloads of @qwen-code/qwen-code 0.24.4, which drops what a session's start answers.
    _row("qwen", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("qwen", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    Hook(
        client="qwen",
        event=EDITED,
        native="PostToolUse",
        action=HookAction.EDIT,
        answer=partial(_specific, "PostToolUse"),
        tools="^(write_file|edit)$",
    ),
    _row("qwen", STOP, native="Stop", action=HookAction.CAPTURE),
    _row("qwen", COMPACTED, native="PostCompact", action=HookAction.SUMMARISE),
    _row("qwen", END, native="SessionEnd", action=HookAction.END),
)

HOOKS: Final[Mapping[tuple[str, str], Hook]] = {(row.client, row.event): row for row in _ROWS}


_RESUMED: Final = "resume"
"""The conversation still has what it was shown; after any other start it has not."""
INPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""About a hundred times the summary of a long conversation."""
_NAMES: Final = {
    "session": ("session_id", "conversation_id"),
    "prompt": ("prompt",),
    "reply": ("last_assistant_message", "text", "prompt_response"),
    "summary": ("compact_summary",),
    "cause": ("source", "reason", "trigger"),
    "turn": ("prompt_id", "turn_id", "generation_id"),
    "transcript": ("transcript_path",),
}
"""Each client's names for a field, in the order they are tried."""
_FILES: Final = ("file_path", "notebook_path")
_EDITED: Final = ("old_string", "new_string", "content", "new_source")
_PATCH: Final = "apply_patch"
"""Codex's tool for edits, whose command is a patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One event in a client; a field that the client does not send is empty."""

    session: str = ""
    folder: Path | None = None
    prompt: str = ""
    reply: str = ""
    """The agent's last message."""
    summary: str = ""
    """The summary that a compaction made."""
    cause: str = ""
    turn: str = ""
    transcript: str = ""
    """The client's file with the conversation; named as a source, never read."""
    files: tuple[str, ...] = ()
    """Files that a tool edits, as the client names them."""
    edited: str = ""
    """What an edit replaces and writes."""
    command: str = ""
    """The command that a tool runs in a shell."""

    @property
    def is_resumed(self) -> bool:
        """Whether a session starts with the conversation that it had."""
        return self.cause == _RESUMED

    @property
    def source_ref(self) -> str | None:
        """The source of texts captured from this event."""
        place = self.transcript or self.session
        return f"{place}#{self.turn}" if place and self.turn else place or None


def read_event(raw: bytes) -> HookEvent:
    """Parse a client's input.

    Raises:
        InvalidInputError: the input is too large, or not a JSON object.

    """
    if len(raw) > INPUT_BYTES_MAX:
        raise InvalidInputError(f"The hook's input has more than {INPUT_BYTES_MAX:,} bytes.")
    try:
        value = json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("The hook's input is not JSON.") from error
    if not isinstance(value, dict):
        raise InvalidInputError("The hook's input is not a JSON object.")
    payload = cast("dict[str, Any]", value)
    texts = {name: _text(payload, keys) for name, keys in _NAMES.items()}
    return HookEvent(
        **{**texts, "session": _name(texts["session"])},
        folder=_folder(payload),
        **_tool_input(payload),
    )


def _tool_input(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files, the text and the command of the input of a tool."""
    given = payload.get("tool_input")
    if not isinstance(given, dict):
        return {}
    values = cast("dict[str, Any]", given)
    each = [values, *_objects(values.get("edits"))]
    parts = [_text(one, (key,)) for one in each for key in _EDITED]
    command = _text(values, ("command",))
    is_patch = payload.get("tool_name") == _PATCH
    path = _text(values, _FILES)
    return {
        "files": patched_files(command) if is_patch else tuple(filter(None, (path,))),
        "edited": command if is_patch else "\n".join(filter(None, parts)),
        "command": "" if is_patch else command,
    }


def _objects(value: object) -> list[dict[str, Any]]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]


def _text(payload: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((payload[key] for key in keys if isinstance(payload.get(key), str)), "")


def _name(text: str) -> str:
    return text if text.isprintable() and len(text) <= NAME_CHARS_MAX else ""


def _folder(payload: Mapping[str, Any]) -> Path | None:
    """Return the event's folder: its own field, or the first workspace root."""
    roots = payload.get("workspace_roots")
    first = cast("list[object]", roots)[0] if isinstance(roots, list) and roots else None
    path = payload.get("cwd") or first
    if not isinstance(path, str) or "\0" in path or not Path(path).is_absolute():
        return None
    return Path(path)
