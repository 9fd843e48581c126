"""A hook whose memory is on a server: what the server is sent, and what it does with it.

The client's side imports nothing heavy. A server runs the same actions; it is sent what the action
needs and nothing else, and uses no path, process or folder of the client.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from commonbrain.api.project_folder import FolderConfig
from commonbrain.hooks.table import HookAction, HookEvent, found_in
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX, PATH_CHARS_MAX, QUERY_CHARS_MAX
from commonbrain.model.values import dataclass
from commonbrain.runtime.callers import is_attended
from commonbrain.runtime.remote import endpoint, post, read_key
from commonbrain.text.code_names import read_edit
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.prompts import typed_text

if TYPE_CHECKING:
    from commonbrain.hooks.table import Hook
    from commonbrain.observability.hook_runs import HookRuns

HOOK_PATH: Final = "/v1/hook"
TEXT_CHARS_MAX: Final = 50_000
"""Of each text of an event; what is captured of a turn or a summary is far shorter."""
FILES_MAX: Final = 100
_REPLY_BYTES_MAX: Final = 256 * 1024
"""Several times the longest text for a client's model."""
_LEAST_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMemory:
    """The server that a hook asks."""

    url: str
    key_file: Path | None = None
    has_key: bool = True
    """Whether there is a key: that of the file, or of the environment."""

    @property
    def words(self) -> list[str]:
        """The options of a command that asks the same server."""
        key_file = ["--key-file", str(self.key_file)] if self.key_file else []
        return ["--url", self.url, *key_file, *([] if self.has_key else ["--no-key"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """An event of a client, and what the files of this machine say of it."""

    hook: "Hook"
    event: HookEvent
    folder: FolderConfig
    runs: "HookRuns"


def ask_remote(memory: RemoteMemory, context: HookContext, *, until: float) -> str | None:
    """Let a server run a hook's action; return its text for the client's model.

    Raises:
        InvalidInputError: the URL or the key cannot be used, or the server does not know the hook.
        UnavailableError: the server does not answer in time, is no Commonbrain, or refuses.

    """
    fields = NEEDS[context.hook.action](context)
    remaining_s = max(_LEAST_S, until - monotonic())
    body: dict[str, Any] = {
        "client": context.hook.client,
        "event": context.hook.event,
        "project": os.environ.get("COMMONBRAIN_PROJECT") or context.folder.project,
        "has_hooks": context.folder.has_hooks,
        "capture": context.folder.capture,
        "remaining_s": round(remaining_s, 3),
        "fields": {name: text for name, text in fields.items() if text},
    }
    if context.event.statements:
        body["is_of_user"] = is_attended(os.environ)
    at = endpoint(memory.url)
    key = read_key(memory.key_file) if memory.has_key else None
    session = context.event.session
    headers = {
        "Content-Type": "application/json",
        "User-Agent": context.hook.client,
        "Authorization": f"Bearer {key}" if key else "",
        "Commonbrain-Session": session if session.isascii() else "",
    }
    reply = post(
        at._replace(path=at.path.removesuffix("/mcp") + HOOK_PATH),
        json.dumps(body).encode(),
        headers={name: value for name, value in headers.items() if value},
        timeout_s=remaining_s,
        bytes_max=_REPLY_BYTES_MAX,
    )
    if reply.body.get("code") == InvalidInputError.default_code:
        raise InvalidInputError(
            "The server does not understand this hook: it may be older than this client.",
            hint="Upgrade Commonbrain there.",
        )
    text = reply.body.get("text", reply)
    if reply.status != _OK or not (text is None or isinstance(text, str)):
        raise reply.error()
    _note(context, is_shown=text is not None)
    if context.hook.action is HookAction.BOOT and context.folder.notices:
        # They name files of this machine.
        from commonbrain.text.normalisation import injected_block  # noqa: PLC0415

        text = "\n".join(filter(None, (text, injected_block("\n".join(context.folder.notices)))))
    return text


_OK: Final = 200


def _note(context: HookContext, *, is_shown: bool) -> None:
    """Record here what the session was shown: a server keeps no files of its clients."""
    event = context.event
    match context.hook.action:
        case HookAction.TOOL | HookAction.TOOL_USED if event.files:
            context.runs.mark_searched(event.conversation, event.files)
        case HookAction.TOOL if event.command and not is_shown:
            # A prompt does not need this import.
            from commonbrain.text.commands import read_commands  # noqa: PLC0415

            commands = read_commands(event.command)
            keys = tuple(one.key for one in commands if not one.kinds)
            context.runs.mark_searched(event.conversation, keys)
        case HookAction.SUMMARISE:
            context.runs.forget(event.session)
        case HookAction.BOOT if not event.is_resumed:
            context.runs.forget(event.session)
        case _:
            pass


def _prompt(context: HookContext) -> Mapping[str, Any]:
    return {"prompt": typed_text(context.event.prompt)[:QUERY_CHARS_MAX]}


def _tool(context: HookContext) -> Mapping[str, Any]:
    event = context.event
    subagent = {"subagent": event.subagent, "subagent_type": event.subagent_type}
    if event.task:
        return {**subagent, "task": typed_text(event.task)[:QUERY_CHARS_MAX]}
    if event.files:
        return {**subagent, **_edit(context)}
    # A prompt does not need this import. What a command is said to do stays on this machine.
    from commonbrain.text.commands import read_commands  # noqa: PLC0415

    keys = (one.key.split() for one in read_commands(event.command))
    lines = (" ".join(_name(word) for word in words if not _VALUE.match(word)) for words in keys)
    return {**subagent, "command": "\n".join(lines)[:TEXT_CHARS_MAX]}


_VALUE: Final = lazy_pattern(r"-[A-Za-z](?![A-Za-z]{0,3}$)")
"""A short option that may hold what it sets, such as a password."""


def _name(path: str) -> str:
    """Return the name of a file outside of the project, whose path stays on this machine."""
    is_outside = os.path.normpath(path).startswith(("/", "~", "../")) or path[1:2] == ":"
    return PurePath(path).name if is_outside else path


def _used(context: HookContext) -> Mapping[str, Any]:
    """Return a failure, or what fixed it; or an edit of a client that is shown nothing before."""
    event = context.event
    if event.files:
        return _tool(context)
    return {**_results(context), "subagent": event.subagent}


def _results(context: HookContext) -> Mapping[str, Any]:
    return {**found_in(context.event), "turn": context.event.turn[:NAME_CHARS_MAX]}


def _edit(context: HookContext) -> Mapping[str, Any]:
    """Return the names of an edit in place of its text, which stays on this machine."""
    event = context.event
    code = read_edit(event.files, event.edited, folder=str(event.folder or ""))
    definitions = (f"def {name}" for name in sorted(code.symbols))
    files = [_name(one) for one in code.files if len(one) <= PATH_CHARS_MAX]
    return {"files": files[:FILES_MAX], "edited": "\n".join(definitions)[:TEXT_CHARS_MAX]}


def _capture(context: HookContext) -> Mapping[str, Any]:
    # A prompt waits for neither import.
    from commonbrain.text.capture import select_captured  # noqa: PLC0415

    chosen = "\n\n".join(select_captured(context.event.reply, context.folder.capture))
    return {"reply": chosen[:TEXT_CHARS_MAX], "turn": context.event.turn[:NAME_CHARS_MAX]}


def _summary(context: HookContext) -> Mapping[str, Any]:
    from commonbrain.text.capture import both_ends  # noqa: PLC0415 see `_capture`

    return {"summary": both_ends(context.event.summary)}


NEEDS: Final[Mapping[HookAction, Callable[[HookContext], Mapping[str, Any]]]] = {
    HookAction.BOOT: lambda context: {"cause": context.event.cause[:NAME_CHARS_MAX]},
    HookAction.RECALL: _prompt,
    HookAction.TOOL: _tool,
    HookAction.TOOL_USED: _used,
    HookAction.NOTE: _results,
    HookAction.PRIME: lambda context: {
        "subagent": context.event.subagent,
        "subagent_type": context.event.subagent_type,
    },
    HookAction.CAPTURE: _capture,
    HookAction.SUMMARISE: _summary,
    HookAction.END: lambda _: {},
}
"""What each action needs of its event."""
