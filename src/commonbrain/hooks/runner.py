"""Runs a hook so that the client always continues: in time, with exit status 0.

Imports must be fast: a client waits for a hook at every prompt, and most prompts need no action.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Final, NoReturn

from commonbrain.api.project_folder import (
    CONFIG_FILE,
    FolderConfig,
    find_folder_config,
    trust_project,
)
from commonbrain.hooks.readiness import is_idle, shows_rules, with_findings
from commonbrain.hooks.remote import HookContext, RemoteMemory, ask_remote
from commonbrain.hooks.table import (
    HOOKS,
    INPUT_BYTES_MAX,
    LIMITS_S,
    Hook,
    HookAction,
    HookEvent,
    find_hook,
    found_in,
    read_event,
)
from commonbrain.hosts import is_url
from commonbrain.model.errors import ACTION_ITEMS_PENDING, KEYLESS, CommonbrainError
from commonbrain.model.values import dataclass, field
from commonbrain.observability.hook_runs import TIMED_OUT, HookRuns, ShownCounts, state_folder
from commonbrain.runtime.callers import (
    check_command_is_of_person,
    describe_process,
    is_attended,
    is_off,
    may_share,
    store_socket,
)
from commonbrain.runtime.local_socket import ask
from commonbrain.runtime.pause import pause_in
from commonbrain.text.private_parts import without_private_values
from commonbrain.text.prompts import may_last, typed_text

_UNREAD: Final = "The memory could not be read, so rules that bind here may be missing"
"""What an agent is told where a sealed store has no key."""
_SECONDS_MAX: Final = 60
"""The maximum in the settings."""


def is_disabled(environment: Mapping[str, str]) -> bool:
    """Return whether the user switched all hooks off."""
    return is_off("COMMONBRAIN_HOOKS", environment)


def limit_s(action: HookAction, environment: Mapping[str, str]) -> float:
    """Return the timeout of an action in seconds, from the start of the process."""
    variable, default = LIMITS_S[action]
    try:
        seconds = float(environment.get(variable, ""))
    except ValueError:
        return default
    return seconds if 0 < seconds <= _SECONDS_MAX else default


def render_status(environment: Mapping[str, str], path: Path) -> str:
    """Describe whether hooks are on in a folder, its project and the timeouts."""
    folder = find_folder_config(path)
    clients: dict[str, list[str]] = {}
    for hook in HOOKS.values():
        if hook.is_installed:
            clients.setdefault(hook.client, []).append(hook.event)
    limits = (f"{action.name.lower()} {limit_s(action, environment):g} s" for action in LIMITS_S)
    lines = [
        f"hooks: {_switch(environment, folder)}",
        f"project: {folder.project or 'none'}",
        f"capture: {folder.capture}",
        f"limits: {', '.join(limits)}",
        *(f"{client}: {', '.join(events)}" for client, events in clients.items()),
        *(_one_line(notice) for notice in folder.notices),
    ]
    # Compiling its patterns takes longer than most hooks have left to do.
    from commonbrain.model.escaping import inert  # noqa: PLC0415

    return inert("\n".join(lines))


def _switch(environment: Mapping[str, str], folder: FolderConfig) -> str:
    if is_disabled(environment):
        return "off, by COMMONBRAIN_HOOKS"
    if pause := pause_in(environment):
        return f"paused {pause}"
    if not folder.has_hooks:
        return f"only the rules that bind, by {folder.source}"
    return f"on; hooks = false in {CONFIG_FILE} or COMMONBRAIN_HOOKS=off switches them off"


def _one_line(text: str) -> str:
    """Return a text as one safe line; most hooks write none."""
    from commonbrain.model.escaping import inert_line  # noqa: PLC0415 see `render_status`

    return inert_line(text)


def _trust(running: HookOutput) -> None:
    check_command_is_of_person("Trusting the project that a file names")
    file, project = trust_project(Path.cwd())
    running.answer = _one_line(f"The project of {file.parent} and below is {project}.")


_NOTED_CHARS_MAX: Final = 10_000
"""Of a prompt that is read for what is to last."""
_CLOSING_S: Final = 0.3
"""Reserved from an action's time to write its output and close the store."""
_WORDS_S: Final = 0.1
"""What a late action may take of that: a search by words takes 10 ms, on a busy machine several
times as long. Opening the store may have taken all other time."""
_REPLY_S: Final = 0.15
"""Reserved for a server's answer to arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """The arguments of a hook call."""

    client: str = ""
    event: str = ""
    store: Path | None = None
    agent: str | None = None
    url: str | None = None
    """The server that has the memory, in place of a store."""
    key_file: Path | None = None
    has_key: bool = True
    is_detached: bool = False
    """Whether this is the background process, for which no client waits."""

    @property
    def words(self) -> list[str]:
        """The positional arguments and options, to call the hook again."""
        store = ["--store", str(self.store)] if self.store else []
        agent = ["--agent", self.agent] if self.agent else []
        server = self.server.words if self.server else []
        return [self.client, self.event, *store, *agent, *server]

    @property
    def server(self) -> RemoteMemory | None:
        """The server to ask, if there is one."""
        if not self.url:
            return None
        return RemoteMemory(url=self.url, key_file=self.key_file, has_key=self.has_key)


@dataclass(slots=True)
class HookOutput:
    """What a hook has shown so far; what is late is dropped."""

    answer: str = ""
    complaint: str = ""
    code: str = ""
    """The code of the error in the complaint."""
    command: str = ""
    """The command that the hook is about."""
    is_late: bool = False
    """Whether its time was over before it had an answer or an error."""
    later: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """Start processes; called in turn once the client has the answer."""


def run_hook(arguments: Sequence[str], *, began: float) -> NoReturn:
    """Run a hook, write its output to stdout or one line about a problem to stderr, and exit.

    Threads that still wait, for an embedder or a lock, end with the process; uncommitted changes
    roll back.

    Args:
        arguments: the words after `brain hook`.
        began: when the program started, by `monotonic`; its limit counts from then.

    """
    if list(arguments[:1]) == ["status"]:
        print(render_status(os.environ, Path.cwd()))  # noqa: T201 the output of the command
        _leave()
    running = HookOutput()
    if list(arguments[:1]) == ["trust"]:
        _attempt(running, partial(_trust, running))
        _write_result(running)
        os._exit(1 if running.complaint else 0)
    call = _read(arguments)
    hook = find_hook(call.client, call.event, is_detached=call.is_detached)
    if hook is None:
        running.complaint = f"Unknown hook {call.client[:40]!r} {call.event[:40]!r}."
    elif not is_disabled(os.environ) and pause_in(os.environ) is None:
        until = began + limit_s(hook.action, os.environ)
        run_until(running, partial(_answer, running, hook, call=call, until=until), until=until)
        if running.code in KEYLESS and shows_rules(hook, running.command):
            # Nobody reads the stderr of a hook that does not fail.
            running.answer = _formatted(hook, _one_line(f"{_UNREAD}: {running.complaint}"))
        if running.is_late:
            HookRuns(state_folder(os.environ)).count(hook.client, hook.event, outcome=TIMED_OUT)
    if hook is not None and hook.warns and running.code == ACTION_ITEMS_PENDING:
        # Only the user can tell the agent to answer them, and does not see stderr.
        lost = _one_line(f"Commonbrain stored nothing of this turn. {running.complaint}")
        running.answer = json.dumps({"systemMessage": lost})
    _write_result(running)
    for start in running.later:
        with suppress(Exception):
            start()
    _leave()


def run_until(running: HookOutput, answer: Callable[[], None], *, until: float) -> None:
    """Run a hook in a thread and wait for it until its deadline.

    What it recorded by then is its result, even if it still closes the store.
    """
    worker = Thread(target=_attempt, args=(running, answer), daemon=True)
    left_s = until - monotonic()
    if left_s > 0:
        worker.start()
        worker.join(left_s)
    if left_s <= 0 or (worker.is_alive() and not running.answer):
        running.is_late = True
        running.complaint = "The hook timed out."


def _read(arguments: Sequence[str]) -> HookCall:
    """Read the words of a call; unknown options are ignored. Without a value, none is a call.

    The parser of the standard library takes a twentieth of the time of a hook.
    """
    names: list[str] = []
    given: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        option, has_value, value = word.partition("=")
        if option in _OPTIONS:
            value = value if has_value else next(words, "-")
            if value.startswith("-") and not has_value:
                return HookCall()
            name, read = _OPTIONS[option]
            given[name] = read(value)
        elif word in _FLAGS:
            given |= _FLAGS[word]
        elif not word.startswith("-"):
            names.append(word)
    if tenant := given.pop("tenant", None):
        # The processes that this one starts or asks find it there.
        os.environ["COMMONBRAIN_TENANT"] = tenant
    client, event, *_ = (*names, "", "")
    return HookCall(client=client, event=event, **given)


def _store_of(text: str) -> Path | None:
    """Return the file of a store; a URL goes to the environment, for what this process starts."""
    if not is_url(text):
        return Path(text)
    # Every user of the machine can read command lines, and a URL may contain a password.
    os.environ["COMMONBRAIN_STORE"] = text
    return None


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "--store": ("store", _store_of),
    "--agent": ("agent", str),
    "--tenant": ("tenant", str),
    "--url": ("url", str),
    "--key-file": ("key_file", Path),
}
_FLAGS: Final = {"--no-key": {"has_key": False}, "--detached": {"is_detached": True}}


def _attempt(running: HookOutput, answer: Callable[[], None]) -> None:
    """Run a hook and record its error."""
    try:
        answer()
    except CommonbrainError as error:
        running.code, running.complaint = error.code, f"{error.code}: {error}"
    # The client must continue after any error; the error's text could contain private data.
    except BaseException as error:  # noqa: BLE001 see above
        running.complaint = f"An internal error occurred: {type(error).__name__}."


def _answer(running: HookOutput, hook: Hook, *, call: HookCall, until: float) -> None:
    """Record the output of a hook as soon as it is known."""
    raw = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    event = read_event(raw)
    running.command = event.command
    # What is private leaves this process in no form.
    raw = without_private_values(raw)
    folder = find_folder_config(event.folder or Path.cwd())
    if hook.action is HookAction.BOOT:
        running.complaint = " ".join(folder.notices)
    runs = HookRuns(state_folder(os.environ))
    if not call.is_detached:
        runs.note(hook.client, hook.event)
    store = call.url or call.store
    event = with_findings(hook, event, folder=folder, store=store, runs=runs)
    if is_idle(hook, event, folder=folder, store=store, runs=runs):
        return
    if hook.action is HookAction.END and not call.is_detached:
        # Claude Code ends a hook after 1.5 s when it exits, and its server too.
        run_detached(["hook", *call.words, "--detached"], raw)
        return
    if hook.action is HookAction.RECALL and not call.is_detached:
        running.later += _noting(event, folder=folder, call=call)
    context = HookContext(hook=hook, event=event, folder=folder, runs=runs)
    if call.server is not None:
        _show(running, context, text=ask_remote(call.server, context, until=until))
    else:
        _use_store(running, context, call=call, raw=raw, until=until)


def _use_store(
    running: HookOutput, context: HookContext, *, call: HookCall, raw: bytes, until: float
) -> None:
    """Record the output of a hook on a store: that of its process, or else of this one."""
    hook, runs = context.hook, context.runs
    path = store_socket(call.store, os.environ)
    if reply := path and _ask_server(call, context, raw=raw, path=path, until=until):
        if "error" in reply:
            raise CommonbrainError(str(reply["error"]), code=str(reply.get("code")))
        _show(running, context, text=reply.get("text"))
        return
    is_background = hook.action is HookAction.END or call.is_detached
    may_start = path is not None and not is_background and may_share(os.environ)
    if may_start and reply is None:
        start = partial(_start_server, running, call.store, session=context.event.session)
        if hook.action is HookAction.BOOT:
            # Other hooks need the processor for their answer; here the next one has less to wait.
            with suppress(Exception):
                start()
        else:
            running.later.append(start)
    from commonbrain.hooks.actions import HookRequest, run_action  # noqa: PLC0415

    request = HookRequest(
        hook=hook,
        event=context.event,
        folder=context.folder,
        agent=call.agent or hook.client,
        remaining_s=lambda: max(_WORDS_S, until - _CLOSING_S - monotonic()),
        runs=runs,
        loads_model=not may_start or call.is_detached,
        is_of_user=is_attended(os.environ),
    )

    run_action(request, call.store, show=lambda text: _show(running, context, text=text))


def _show(running: HookOutput, context: HookContext, *, text: str | None) -> None:
    """Record the text for the client's model, and for the status line how much it shows."""
    running.answer = _formatted(context.hook, text)
    if text and context.event.failed:
        from commonbrain.hooks.failure_log import FailureLog  # noqa: PLC0415 see `with_findings`

        FailureLog(context.runs, context.event.session).mark_shown(context.event, text)
    if running.answer and context.hook.action is not HookAction.BOOT:
        context.runs.add_shown(context.event.session, ShownCounts.of(text or "").memories)


def _noting(event: HookEvent, *, folder: FolderConfig, call: HookCall) -> list[partial[None]]:
    """Return what stores in the background what a prompt says, as that takes longer than it may."""
    if not may_last(typed_text(event.prompt)) or folder.capture == "off":
        return []
    # A pipe takes 64 KiB before its reader has started.
    payload = {
        "session_id": event.session,
        "cwd": str(event.folder) if event.folder else None,
        "prompt": event.prompt[:_NOTED_CHARS_MAX],
        "prompt_id": event.turn,
        "transcript_path": event.transcript,
    }
    words = ["hook", *call.words, "--detached"]
    return [partial(run_detached, words, json.dumps(payload).encode())]


def _formatted(hook: Hook, text: str | None) -> str:
    return json.dumps(hook.answer(text)) if text and hook.answer else ""


_LEAST_S: Final = 0.01
"""Seconds in which a free process greets."""


def _ask_server(
    call: HookCall, context: HookContext, *, raw: bytes, path: Path, until: float
) -> Mapping[str, Any] | None:
    """Let a process that serves the store run the action; None if there is none."""
    # On a busy machine nothing may be left by now; a socket takes no negative time.
    remaining_s = max(_LEAST_S, until - monotonic() - _CLOSING_S)
    request = {
        "kind": "hook",
        "client": call.client,
        "event": call.event,
        "agent": call.agent or call.client,
        "input": raw.decode(errors="replace"),
        "found": found_in(context.event),
        "runs": str(context.runs.folder),
        "is_detached": call.is_detached,
        "is_of_user": is_attended(os.environ),
        **describe_process(),
        # What it found by its deadline must arrive before this process stops waiting.
        "remaining_s": max(0.0, remaining_s - _REPLY_S),
    }
    return ask(path, request, timeout_s=remaining_s)


def _write_result(running: HookOutput) -> None:
    with suppress(OSError, ValueError):
        if running.answer:
            sys.stdout.write(running.answer + "\n")
            sys.stdout.flush()
    with suppress(OSError, ValueError):
        if running.complaint:
            sys.stderr.write(f"commonbrain: {_one_line(running.complaint)}\n")
            sys.stderr.flush()


def _leave() -> NoReturn:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)


_DETACHED: Final = 0x208 if sys.platform == "win32" else 0
"""DETACHED_PROCESS and CREATE_NEW_PROCESS_GROUP."""


def run_detached(words: Sequence[str], payload: bytes) -> None:
    """Run a command of this program in a background process, with an input.

    The input goes to stdin, because other users can read a command line. The process holds no pipe
    of the client, which waits until those of its hook are closed.
    """
    # Most hooks start nothing.
    import subprocess  # noqa: PLC0415

    process = subprocess.Popen(  # noqa: S603 our own program and arguments
        # Without -P, a folder in the project with our name would run instead.
        [sys.executable, "-P", "-m", "commonbrain", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Signals to the client's group and closing its console must not end the process.
        start_new_session=True,
        creationflags=_DETACHED,
    )
    # It may have ended already.
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(payload)
            process.stdin.close()


def _start_server(running: HookOutput, store: Path | None, *, session: str) -> None:
    """Start the process that serves a store as long as this session's client runs.

    It ends at once if another process serves the store. Without a client that outlives this hook,
    nothing is started, nor for a store that was refused. Without it, later hooks are slower.
    """
    if running.code:
        return
    # Only the first hook of a session needs it.
    from commonbrain.coordination.processes import LocalProcesses  # noqa: PLC0415

    client = LocalProcesses().client()
    if client is not None:
        options = ["--store", str(store)] if store else []
        user = {"pid": client.pid, "session": session}
        run_detached([*options, "mcp", "--background"], json.dumps(user).encode())
