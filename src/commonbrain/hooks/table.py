"""`HOOKS` is the table: each client's events, their actions and the format of the reply.

To support another event or client, add a row. The module is imported before anything heavy, so it
names actions and does not import them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from commonbrain.hooks.tool_results import changed_lines, read_result
from commonbrain.model import limits
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.values import asdict, dataclass, replace
from commonbrain.text.code_names import patched_files
from commonbrain.text.private_parts import without_private_values

if TYPE_CHECKING:
    from commonbrain.ingestion.failures import FixedFailure
    from commonbrain.text.user_statements import UserStatement

HookReply: TypeAlias = Callable[[str], Mapping[str, object]]
"""Formats text for the client's model."""


class HookAction(Enum):
    """The action of an event."""

    BOOT = auto()
    """A session starts: return its briefing."""
    RECALL = auto()
    """The user sends a prompt: return related memories."""
    TOOL = auto()
    """The agent edits files or runs a command: return memories that name them."""
    TOOL_USED = auto()
    """A command has run, or files were edited: after a failure, return what fixed it before."""
    PRIME = auto()
    """A subagent starts: return what binds it."""
    NOTE = auto()
    """The user has sent a prompt: store what in it is to last, while nobody waits."""
    CAPTURE = auto()
    """The agent has answered: store its decisions."""
    SUMMARISE = auto()
    """The conversation was compacted: store its summary."""
    END = auto()
    """The session ends."""


SHOWS_RULES: Final = frozenset({HookAction.BOOT, HookAction.TOOL, HookAction.PRIME})
"""The actions that show BLOCKERs, which the files of a folder cannot switch off."""
LIMITS_S: Final[Mapping[HookAction, tuple[str, float]]] = {
    HookAction.BOOT: ("COMMONBRAIN_HOOK_START_TIMEOUT_S", limits.HOOK_START_TIMEOUT_S),
    HookAction.RECALL: ("COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S", limits.HOOK_PROMPT_TIMEOUT_S),
    HookAction.TOOL: ("COMMONBRAIN_HOOK_EDIT_TIMEOUT_S", limits.HOOK_EDIT_TIMEOUT_S),
    HookAction.TOOL_USED: ("COMMONBRAIN_HOOK_EDIT_TIMEOUT_S", limits.HOOK_EDIT_TIMEOUT_S),
    HookAction.PRIME: ("COMMONBRAIN_HOOK_START_TIMEOUT_S", limits.HOOK_START_TIMEOUT_S),
    HookAction.NOTE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", limits.HOOK_WRITE_TIMEOUT_S),
    HookAction.CAPTURE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", limits.HOOK_WRITE_TIMEOUT_S),
    HookAction.SUMMARISE: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", limits.HOOK_WRITE_TIMEOUT_S),
    HookAction.END: ("COMMONBRAIN_HOOK_WRITE_TIMEOUT_S", limits.HOOK_WRITE_TIMEOUT_S),
}
"""The timeout of each action, with the setting that changes it."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One event of one client."""

    client: str
    event: str
    """The event's name in Commonbrain, the same for every client."""
    _: KW_ONLY
    native: str
    """The event's name in the client."""
    action: HookAction
    answer: HookReply | None = None
    """None if the client accepts no reply."""
    warns: bool = False
    """Whether the client shows its user a `systemMessage`."""
    tools: str = ""
    """Regular expression of the client's tools for which it calls the hook; empty for others."""
    is_installed: bool = True
    """False for a name of the past: settings that have it still work, until they are renewed."""


def _specific(native: str, text: str) -> Mapping[str, object]:
    return {"hookSpecificOutput": {"hookEventName": native, "additionalContext": text}}


def _additional(text: str) -> Mapping[str, object]:
    return {"additional_context": text}


def _copilot(text: str) -> Mapping[str, object]:
    return {"additionalContext": text}


def _continue_block(text: str) -> Mapping[str, object]:
    # Cursor accepts it since 3.20, but does not document it.
    return {"continue": True, "additional_context": text}


START: Final = "session-start"
SUBAGENT: Final = "subagent-start"
PROMPT: Final = "user-prompt-submit"
TOOL: Final = "pre-tool-use"
EDITED: Final = "file-edited"
TOOL_USED: Final = "post-tool-use"
TOOL_FAILED: Final = "post-tool-use-failure"
COMMIT: Final = "before-commit"
STOP: Final = "stop"
COMPACTED: Final = "post-compact"
END: Final = "session-end"


def _like_claude(client: str, event: str, *, native: str, action: HookAction) -> Hook:
    return Hook(client, event, native=native, action=action, answer=partial(_specific, native))


def _tool(
    client: str,
    event: str,
    *,
    native: str,
    tools: str = "",
    answer: HookReply | None = None,
    is_installed: bool = True,
) -> Hook:
    """Return the hook of a tool. It decides nothing: the client's own permissions apply as ever."""
    return Hook(
        client,
        event,
        native=native,
        action=HookAction.TOOL_USED if event in {TOOL_USED, TOOL_FAILED} else HookAction.TOOL,
        answer=answer or partial(_specific, native),
        tools=tools,
        is_installed=is_installed,
    )


def _capture(client: str, *, native: str) -> Hook:
    return Hook(client, STOP, native=native, action=HookAction.CAPTURE, warns=True)


_ROWS: Final = (
    _like_claude("claude-code", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("claude-code", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    _tool(
        "claude-code",
        TOOL,
        native="PreToolUse",
        tools="Edit|Write|MultiEdit|NotebookEdit|Bash|Agent|Task",
    ),
    _tool("claude-code", EDITED, native="PostToolUse", is_installed=False),
    _tool("claude-code", COMMIT, native="PreToolUse", is_installed=False),
    _tool(
        "claude-code",
        TOOL_USED,
        native="PostToolUse",
        tools="Bash|Edit|Write|MultiEdit|NotebookEdit",
    ),
    _tool("claude-code", TOOL_FAILED, native="PostToolUseFailure", tools="Bash"),
    _like_claude("claude-code", SUBAGENT, native="SubagentStart", action=HookAction.PRIME),
    _capture("claude-code", native="Stop"),
    Hook("claude-code", COMPACTED, native="PostCompact", action=HookAction.SUMMARISE),
    Hook("claude-code", END, native="SessionEnd", action=HookAction.END),
    # Codex has no event with the summary of a compaction, and none for the end of a session.
    _like_claude("codex", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("codex", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    _tool("codex", TOOL, native="PreToolUse", tools="apply_patch|Bash|spawn_agent"),
    _tool("codex", EDITED, native="PostToolUse", is_installed=False),
    _tool("codex", TOOL_USED, native="PostToolUse", tools="Bash|apply_patch"),
    _like_claude("codex", SUBAGENT, native="SubagentStart", action=HookAction.PRIME),
    _capture("codex", native="Stop"),
    Hook("cursor", START, native="sessionStart", action=HookAction.BOOT, answer=_additional),
    Hook(
        "cursor",
        PROMPT,
        native="beforeSubmitPrompt",
        action=HookAction.RECALL,
        answer=_continue_block,
    ),
    _tool(
        "cursor",
        TOOL_USED,
        native="postToolUse",
        tools="Shell|Write|StrReplace|Edit",
        answer=_additional,
    ),
    _tool("cursor", TOOL_FAILED, native="postToolUseFailure", tools="Shell", answer=_additional),
    # Cursor's stop event does not contain the message.
    Hook("cursor", STOP, native="afterAgentResponse", action=HookAction.CAPTURE),
    Hook("cursor", END, native="sessionEnd", action=HookAction.END),
    _like_claude("gemini", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("gemini", PROMPT, native="BeforeAgent", action=HookAction.RECALL),
    # Its event before a tool accepts no context, so that edits are shown what is known after them.
    _tool("gemini", EDITED, native="AfterTool", is_installed=False),
    _tool("gemini", TOOL_USED, native="AfterTool", tools="write_file|replace|run_shell_command"),
    _capture("gemini", native="AfterAgent"),
    Hook("gemini", END, native="SessionEnd", action=HookAction.END),
    # Payloads of @qwen-code/qwen-code 0.24.4, whose event before a tool accepts no context and
    # whose subagents are shown none.
    _like_claude("qwen", START, native="SessionStart", action=HookAction.BOOT),
    _like_claude("qwen", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL),
    _tool("qwen", TOOL_USED, native="PostToolUse", tools="^(write_file|edit|run_shell_command)$"),
    _tool("qwen", TOOL_FAILED, native="PostToolUseFailure", tools="^run_shell_command$"),
    Hook("qwen", STOP, native="Stop", action=HookAction.CAPTURE),
    Hook("qwen", COMPACTED, native="PostCompact", action=HookAction.SUMMARISE),
    Hook("qwen", END, native="SessionEnd", action=HookAction.END),
    # Payloads of @github/copilot 1.0.102 under the names of Claude Code's events and tools. Its
    # event after an answer does not contain the message.
    Hook("copilot", START, native="SessionStart", action=HookAction.BOOT, answer=_copilot),
    Hook("copilot", PROMPT, native="UserPromptSubmit", action=HookAction.RECALL, answer=_copilot),
    _tool("copilot", TOOL, native="PreToolUse", tools="Bash|Edit|Write|Task", answer=_copilot),
    _tool("copilot", TOOL_USED, native="PostToolUse", tools="Bash|Edit|Write", answer=_copilot),
    Hook("copilot", SUBAGENT, native="SubagentStart", action=HookAction.PRIME, answer=_copilot),
    Hook("copilot", END, native="SessionEnd", action=HookAction.END),
)

HOOKS: Final[Mapping[tuple[str, str], Hook]] = {(row.client, row.event): row for row in _ROWS}


def find_hook(client: str, event: str, *, is_detached: bool = False) -> Hook | None:
    """Return the hook of an event; in the background, that of a prompt notes what was said."""
    hook = HOOKS.get((client, event))
    if hook is not None and is_detached and hook.action is HookAction.RECALL:
        return replace(hook, action=HookAction.NOTE, answer=None)
    return hook


_RESUMED: Final = "resume"
"""The conversation still has what it was shown; after any other start it has not."""
INPUT_BYTES_MAX: Final = 4 * 1024 * 1024
"""About a hundred times the summary of a long conversation."""
_NAMES: Final = {
    "session": ("session_id", "conversation_id", "sessionId"),
    "prompt": ("prompt",),
    "reply": ("last_assistant_message", "text", "prompt_response"),
    "summary": ("compact_summary",),
    "cause": ("source", "reason", "trigger"),
    "turn": ("prompt_id", "turn_id", "generation_id"),
    "transcript": ("transcript_path",),
    "subagent": ("agent_id",),
    "subagent_type": ("agent_type",),
}
"""Each client's names for a field, in the order they are tried."""
_FILES: Final = ("file_path", "notebook_path", "path")
_EDITED: Final = (
    *("old_string", "new_string", "content", "new_source"),
    *("old_str", "new_str", "file_text"),
)
_STARTERS: Final = frozenset({"Agent", "Task", "spawn_agent"})
"""Tools that start a subagent; `Task` is an older name of `Agent`."""
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
    subagent: str = ""
    """The subagent in whose conversation it happens."""
    subagent_type: str = ""
    """The type of the subagent, or of the one that a tool starts."""
    task: str = ""
    """What the subagent is to do that a tool starts."""
    output: str = ""
    """What a command printed."""
    exit_code: int | None = None
    """Its exit status; None if the client does not say."""
    changes: tuple[str, ...] = ()
    """The first lines that an edit removes and adds."""
    failed: str = ""
    """The lines that name the error of a command that failed, without secrets."""
    fixed: "tuple[FixedFailure, ...]" = ()
    """The errors of a command that passes now, each with what was done about it."""
    helped: tuple[str, ...] = ()
    """Ids of the memories that were shown at its failures."""
    statements: "tuple[UserStatement, ...]" = ()
    """What the user says in the prompt that is to last."""

    @property
    def conversation(self) -> str:
        """The conversation, which shows a subagent nothing that the session was shown."""
        return f"{self.session}/{self.subagent}" if self.subagent else self.session

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
    """Parse a client's input, without its private parts and halves of characters.

    Raises:
        InvalidInputError: the input is too large, or not a JSON object.

    """
    if len(raw) > INPUT_BYTES_MAX:
        raise InvalidInputError(f"The hook's input has more than {INPUT_BYTES_MAX:,} bytes.")
    try:
        value = json.loads(without_private_values(raw) or b"{}")
        if b"\\u" in raw:
            # What a client cut within an emoji could be neither stored nor sent.
            text = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            value = json.loads(text.decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("The hook's input is not JSON.") from error
    if not isinstance(value, dict):
        raise InvalidInputError("The hook's input is not a JSON object.")
    payload = cast("dict[str, Any]", value)
    fields: dict[str, Any] = {name: _text(payload, keys) for name, keys in _NAMES.items()}
    fields |= {name: _name(fields[name]) for name in ("session", "subagent", "subagent_type")}
    if fields["subagent"]:
        # The agent that started it wrote its prompt, and not the user.
        fields["prompt"] = ""
    return HookEvent(folder=_folder(payload), **{**fields, **_tool_input(payload)})


def found_in(event: HookEvent) -> Mapping[str, Any]:
    """Return as JSON what a client's process found in an event; see `with_found`."""
    return {
        "failed": event.failed,
        "fixed": [asdict(one) for one in event.fixed],
        "helped": list(event.helped),
        "statements": [asdict(one) for one in event.statements],
    }


def with_found(event: HookEvent, given: Mapping[str, Any]) -> HookEvent:
    """Return an event with what the client's process found in it."""
    # Most events need neither.
    if given["fixed"]:
        from commonbrain.ingestion.failures import FixedFailure  # noqa: PLC0415

        fixed = tuple(FixedFailure.read(one) for one in given["fixed"])
        event = replace(event, fixed=fixed, helped=tuple(given["helped"]))
    if given["statements"]:
        from commonbrain.text.user_statements import UserStatement  # noqa: PLC0415

        statements = tuple(UserStatement(**one) for one in given["statements"])
        event = replace(event, statements=statements)
    return replace(event, failed=given["failed"])


def _tool_input(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files, the text, the command or the task of the input of a tool."""
    given = payload.get("tool_input")
    if not isinstance(given, dict):
        return {}
    values = cast("dict[str, Any]", given)
    if _text(payload, ("tool_name",)) in _STARTERS:
        kind = _name(_text(values, ("subagent_type", "agent_type")))
        return {"task": _text(values, ("prompt", "message")), "subagent_type": kind}
    each = [values, *_objects(values.get("edits"))]
    parts = [_text(one, (key,)) for one in each for key in _EDITED]
    command = _text(values, ("command",))
    is_patch = payload.get("tool_name") == _PATCH
    path = _text(values, _FILES)
    result = read_result(payload)
    is_edit = is_patch or bool(path)
    return {
        "changes": changed_lines(values) if is_edit else (),
        "output": result.output,
        "exit_code": result.exit_code,
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
    return text if text.isprintable() and len(text) <= limits.NAME_CHARS_MAX else ""


def _folder(payload: Mapping[str, Any]) -> Path | None:
    """Return the event's folder: its own field, or the first workspace root."""
    roots = payload.get("workspace_roots")
    first = cast("list[object]", roots)[0] if isinstance(roots, list) and roots else None
    path = payload.get("cwd") or first
    if not isinstance(path, str) or "\0" in path or not Path(path).is_absolute():
        return None
    return Path(path)
