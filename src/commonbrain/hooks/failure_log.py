"""The failed commands of a session, and what was done about them until they passed.

Every hook is a process of its own, so this is a file, next to what sessions have searched: private,
bounded, without secrets, and deleted with the session. A file that cannot be read is an empty one,
and what cannot be written is not recorded: nothing here may stop a hook.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from functools import cache, partial
from pathlib import Path
from threading import get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from commonbrain.api.project_folder import AT_ONCE, FolderConfig
from commonbrain.folders import make_private_folder
from commonbrain.hooks.table import HookEvent
from commonbrain.hooks.tool_results import INTERRUPTED
from commonbrain.model.limits import PATH_CHARS_MAX
from commonbrain.observability.hook_runs import HookRuns, ShownCounts, drop_old
from commonbrain.runtime.callers import store_may_be_sealed
from commonbrain.runtime.local_socket import lock_file
from commonbrain.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from commonbrain.ingestion.failures import FixedFailure
    from commonbrain.security.secrets import SecretScanner

EXCERPT_CHARS_MAX: Final = 1200
_COMMAND_CHARS_MAX: Final = 200
_OUTSTANDING_MAX: Final = 5
"""Commands that await their fix; the oldest was given up."""
ATTEMPTS_MAX: Final = 3
"""Different errors of one command, each with what was done about it."""
STEPS_MAX: Final = 6
_RECENT_MAX: Final = 8
_STATE_BYTES_MAX: Final = 128 * 1024
_LOCK_S: Final = 0.05
"""To read, change and write a log takes a few milliseconds."""
_POLL_S: Final = 0.002
_NO_CODE: Final = frozenset({".md", ".rst", ".txt", ".adoc"})
"""Documents, which no command runs."""
_TEST_FILE: Final = lazy_pattern(
    r"(?:^|[/\\])(?:tests?|__tests__|spec)[/\\]|(?:^|[/\\._-])(?:test|spec)s?[._]|"
    r"(?:^|[/\\])test_|(?:Test|Tests|IT|Spec)\.\w+$"
)
_TOKEN: Final = lazy_pattern(r"\w+")
_CHANGING: Final = lazy_pattern(
    r"(?:^|[\s:;&|])(?:install|add|up(?:date|grade)?|sync|tidy|gen(?:erate)?|merge|accept|prepare"
    r"|repair|apply|(?:make)?migrat(?:e|ions)|mv|cp|rm|mkdir|chmod|ln|touch|export|set|config|init"
    r"|(?:--)?(?:fix|write)|format|fmt|reset|clean|pull|checkout|(?:re)?start|create|enable|login"
    r"|seed)(?=$|[\s;&|])|(?:^|\s)sed\s+-i|(?<![-=&\d])>>?\s*[\w./~$]"
)
"""What installs, generates or configures."""
_READ_ONLY: Final = lazy_pattern(
    r"^\s*(?:cat|head|tail|less|ls|find|tree|wc|grep|rg|ag|sed -n|awk|echo|pwd|diff|test|which|env"
    r"|date|sleep|curl|wget|jq|file|stat|ps|git (?:status|log|diff|show|blame|grep|branch))(?:\s|$)"
)
"""What shows something and runs nothing of the project."""
_RECORDING: Final = lazy_pattern(r"^\s*git (?:add|commit|push|fetch)\b")
"""Changes nothing that a command of the project reads."""
_SAYS_FAILED: Final = lazy_pattern(
    r"^(?:E  |[ \t]*(?:FAIL(?:ED)?|ERROR|Error|FATAL)\b|\[ERROR\]|BUILD FAILED|Exception in thread"
    r"|(?:error(?:\[\w+\])?|fatal|panic|Caused by|[\w.]*(?:Error|Exception)): |\w+Error$"
    r"|npm (?:ERR!|error)|thread '.*' panicked|make(?:\[\d+\])?: \*\*\* | ?(?:ELIFECYCLE|ERR_PNPM)"
    r"| *(?:(?:Test Suites:|Tests?:?) *)?[1-9]\d* failed\b|.*\b\d+ problems? \([1-9]"
    r"|[\w./@-]+\.\w{1,5}[:(]\d+(?:[:,]\d+)?\)?: ?"
    r"(?:(?:fatal )?(?:error\b|missing |undefined|cannot )))",
    re.MULTILINE,
)
"""How tools say that they failed, for clients that do not give the exit status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixStep:
    """An edit, or a command that installs or configures."""

    file: str = ""
    lines: tuple[str, ...] = ()
    """The first lines that it removes and adds."""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One error of a command, and what was done before it ran again."""

    excerpt: str
    steps: tuple[FixStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCommand:
    """A command that failed in this session and has not passed since."""

    key: str
    """The digest of what is run again."""
    command: str
    attempts: tuple[Attempt, ...]
    folder: str = ""
    """The digest of the folder into which it goes first; empty if it goes into none."""
    shown: tuple[str, ...] = ()
    """Ids of the memories that were shown at its failures."""
    is_test_first: bool = False
    """Whether its test was written right before, to fail."""

    @property
    def fixed(self) -> "tuple[FixedFailure, ...]":
        """Its errors after which something was done; all but the last ended another error."""
        # Only what passes after a failure needs it.
        from commonbrain.ingestion.failures import FixedFailure  # noqa: PLC0415

        return tuple(
            FixedFailure(
                command=self.command,
                excerpt=one.excerpt,
                files=tuple(step.file for step in one.steps if step.file),
                commands=tuple(step.command for step in one.steps if step.command),
                lines=tuple(line for step in one.steps for line in step.lines),
            )
            for one in self.attempts
            if one.steps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFailures:
    """What a session remembers."""

    outstanding: tuple[FailedCommand, ...] = ()
    tests: tuple[str, ...] = ()
    """Digests of the names of test files that were edited since the last command."""
    flaky: tuple[str, ...] = ()
    """Keys of commands that passed without anything done."""


class _Status(Enum):
    PASSED = auto()
    FAILED = auto()
    NEITHER = auto()


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The failures of one session; without a folder or a session, none are kept."""

    runs: HookRuns
    session: str

    def follow(self, event: HookEvent, *, is_recorded: bool) -> HookEvent:
        """Return a tool's event with the failure or the fixes that its result means.

        Without a record, nothing is known of earlier failures, so that there is no fix.
        """
        if not is_recorded:
            return self._follow(SessionFailures(), event)[1]
        return self._update(lambda state: self._follow(state, event))

    def mark_shown(self, event: HookEvent, text: str | None) -> None:
        """Record the memory that the text shown at a failure names first."""
        ids = ShownCounts.of(text or "").ids[:1]
        if not (event.failed and ids):
            return
        from commonbrain.text.failures import command_key  # noqa: PLC0415 see `_after_command`

        key = _digest(command_key(event.command))

        def marked(state: SessionFailures) -> tuple[SessionFailures, HookEvent]:
            known = _same_command(state, event, key=key)
            outstanding = tuple(
                replace(one, shown=(*one.shown, *ids)[:STEPS_MAX]) if one is known else one
                for one in state.outstanding
            )
            return replace(state, outstanding=outstanding), event

        self._update(marked)

    def forget(self) -> None:
        """Delete what the session remembers."""
        path = self.runs.failures(self.session)
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _update(
        self, change: Callable[[SessionFailures], tuple[SessionFailures, HookEvent]]
    ) -> HookEvent:
        """Change the log; if another hook of the session did so meanwhile, change what it left."""
        path = self.runs.failures(self.session)
        before = self._read()
        after, event = change(before)
        if path is None or after == before:
            return event
        with suppress(OSError):
            make_private_folder(path.parent)
            with _locked(path.parent):
                now = self._read()
                if now != before:
                    after, event = change(now)
                _write(path, after)
        return event

    def _follow(
        self, state: SessionFailures, event: HookEvent
    ) -> tuple[SessionFailures, HookEvent]:
        if event.files:
            return _with_edit(state, event), event
        if not event.command:
            return state, event
        if not state.outstanding and event.exit_code == 0 and "|" not in event.command:
            # Most commands: nothing more is imported for them.
            return replace(state, tests=()), event
        return _after_command(state, event)

    def _read(self) -> SessionFailures:
        path = self.runs.failures(self.session)
        if path is None:
            return SessionFailures()
        try:
            with path.open("rb") as file:
                return _parse(json.loads(file.read(_STATE_BYTES_MAX)))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return SessionFailures()


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Keep other hooks from changing the logs of a folder, unless one of them does not let go."""
    lock = None
    until = monotonic() + _LOCK_S
    # Windows opens no folder, and some file systems lock nothing.
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY)
        while not _is_locked(lock) and monotonic() < until:
            sleep(_POLL_S)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _is_locked(lock: int) -> bool:
    with suppress(BlockingIOError):
        lock_file(lock, waits=False)
        return True
    return False


def _write(path: Path, state: SessionFailures) -> None:
    if not path.exists():
        drop_old(path.parent)
    new = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}")
    with open(new, "w", encoding="utf-8", opener=_private, errors="replace") as file:
        file.write(_text_of(state))
    new.replace(path)


def _text_of(state: SessionFailures) -> str:
    """Return the JSON of a state, without its oldest commands if it is too long."""
    text = json.dumps(asdict(state), ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) > _STATE_BYTES_MAX and state.outstanding:
        return _text_of(replace(state, outstanding=state.outstanding[1:]))
    return text


def captures_failures(
    folder: FolderConfig, environment: Mapping[str, str], *, store: str | Path | None
) -> bool:
    """Return whether failures with their fixes are stored; if not, nothing of them is recorded.

    Of a sealed store nothing may lie in a plain file.
    """
    return folder.capture == AT_ONCE and not store_may_be_sealed(store, environment)


_private: Final = partial(os.open, mode=0o600)


def _parse(value: Any) -> SessionFailures:  # noqa: ANN401 any JSON
    """Read a state; what has another form raises an error."""
    return SessionFailures(
        outstanding=tuple(
            FailedCommand(
                key=str(one["key"]),
                command=str(one["command"]),
                attempts=tuple(
                    Attempt(
                        excerpt=str(attempt["excerpt"]),
                        steps=tuple(
                            FixStep(
                                file=str(step["file"]),
                                lines=tuple(map(str, step["lines"])),
                                command=str(step["command"]),
                            )
                            for step in attempt["steps"]
                        ),
                    )
                    for attempt in one["attempts"]
                ),
                folder=str(one["folder"]),
                shown=tuple(map(str, one["shown"])),
                is_test_first=one["is_test_first"] is True,
            )
            for one in value["outstanding"]
        ),
        tests=tuple(map(str, value["tests"])),
        flaky=tuple(map(str, value["flaky"])),
    )


def _with_edit(state: SessionFailures, event: HookEvent) -> SessionFailures:
    tests = [_digest(Path(one).stem) for one in event.files if _TEST_FILE.search(one)]
    state = replace(state, tests=tuple(dict.fromkeys([*state.tests, *tests]))[-_RECENT_MAX:])
    files = [one for one in event.files if Path(one).suffix.lower() not in _NO_CODE]
    if not state.outstanding or not files:
        return state
    within = [_in_folder(one, event.folder) for one in files]
    names = [screened(one or Path(file).name) for one, file in zip(within, files, strict=True)]
    # A line of a key, or half a token, is none that a scanner knows.
    is_clean = len(names) == 1 and screened(event.edited) == event.edited
    lines = event.changes if is_clean and within[0] else ()
    steps = [FixStep(file=one, lines=lines) for one in names if 0 < len(one) <= PATH_CHARS_MAX]
    return _with_steps(state, steps)


def _in_folder(file: str, folder: Path | None) -> str:
    """Return a path from the project's folder on, as another machine has it too; else nothing."""
    with suppress(OSError, RuntimeError, ValueError):
        here = (folder or Path.cwd()).resolve()
        return (here / file).resolve().relative_to(here).as_posix()
    return ""


def _with_steps(state: SessionFailures, steps: Sequence[FixStep]) -> SessionFailures:
    """Note what was done for every command that awaits its fix."""
    return replace(
        state,
        outstanding=tuple(
            replace(
                one,
                attempts=(
                    *one.attempts[:-1],
                    replace(
                        one.attempts[-1],
                        steps=_latest([*one.attempts[-1].steps, *steps]),
                    ),
                ),
            )
            for one in state.outstanding
        ),
    )


def _latest(steps: Iterable[FixStep]) -> tuple[FixStep, ...]:
    """Keep the last steps; a file that is edited again is named once, with all lines that fit."""
    merged: dict[str, FixStep] = {}
    for step in steps:
        name = step.file or f"$ {step.command}"
        earlier = merged.pop(name, None)
        lines = (*earlier.lines, *step.lines)[-STEPS_MAX:] if earlier else step.lines
        merged[name] = replace(step, lines=tuple(dict.fromkeys(lines)))
    return tuple(merged.values())[-STEPS_MAX:]


def _after_command(state: SessionFailures, event: HookEvent) -> tuple[SessionFailures, HookEvent]:
    from commonbrain.text.failures import command_key  # noqa: PLC0415 only failures need it

    key = _digest(command_key(event.command))
    known = _same_command(state, event, key=key)
    status = _status(event)
    attempt = _attempt(event) if status is _Status.FAILED else None
    if attempt is not None:
        state = _with_failure(state, event, key=key, known=known, attempt=attempt)
        return state, replace(event, failed=attempt.excerpt)
    state = replace(state, tests=())
    if status is not _Status.PASSED:
        return state, event
    if known is None:
        command = screened(event.command)[:_COMMAND_CHARS_MAX] if _changes(event.command) else ""
        return _with_steps(state, [FixStep(command=command)]) if command else state, event
    rest = tuple(one for one in state.outstanding if one is not known)
    state = replace(state, outstanding=rest)
    fixed = known.fixed
    if not fixed:
        flaky = tuple(dict.fromkeys([*state.flaky, key]))[-_RECENT_MAX:]
        return replace(state, flaky=flaky), event
    is_lesson = not known.is_test_first and key not in state.flaky
    return state, replace(event, fixed=fixed, helped=known.shown) if is_lesson else event


def _same_command(state: SessionFailures, event: HookEvent, *, key: str) -> FailedCommand | None:
    """Return the failed command that is run again; `npm test` of another folder is another one."""
    folder = _folder_of(event.command)
    alike = (one for one in state.outstanding if one.key == key)
    return next((one for one in alike if not (folder and one.folder) or one.folder == folder), None)


def _folder_of(command: str) -> str:
    from commonbrain.text.failures import command_folder  # noqa: PLC0415 see `_after_command`

    folder = command_folder(command)
    return _digest(folder) if folder else ""


def _changes(command: str) -> bool:
    """Return whether a command installs, generates or configures something."""
    is_quiet = _READ_ONLY.match(command) or _RECORDING.match(command)
    return not is_quiet and _CHANGING.search(command) is not None


def _status(event: HookEvent) -> _Status:
    """Return how a command ended; without an exit status, its output says it."""
    from commonbrain.text.failures import (  # noqa: PLC0415 see `_after_command`
        is_failure,
        read_failure,
    )

    code = event.exit_code
    if code != 0 and _READ_ONLY.match(event.command):
        return _Status.NEITHER
    has_error = _SAYS_FAILED.search(event.output) is not None
    if code is None and not has_error and read_failure(event.output) is not None:
        return _Status.NEITHER
    # A pipe has the status of its last command.
    if has_error and (code is None or (code == 0 and "|" in event.command)):
        code = 1
    if not code:
        return _Status.PASSED
    has_failed = code != INTERRUPTED and is_failure(event.command, code, output=event.output)
    return _Status.FAILED if has_failed else _Status.NEITHER


def _attempt(event: HookEvent) -> Attempt | None:
    """Return the error that a command printed; None if none stands out."""
    from commonbrain.text.failures import excerpt, read_failure  # noqa: PLC0415

    text = screened(excerpt(event.output, EXCERPT_CHARS_MAX))[:EXCERPT_CHARS_MAX]
    return Attempt(excerpt=text) if read_failure(text) is not None else None


def _with_failure(
    state: SessionFailures,
    event: HookEvent,
    *,
    key: str,
    known: FailedCommand | None,
    attempt: Attempt,
) -> SessionFailures:
    others = (one for one in state.outstanding if one is not known)
    if known is None:
        failed = FailedCommand(
            key=key,
            command=screened(event.command)[:_COMMAND_CHARS_MAX],
            attempts=(attempt,),
            folder=_folder_of(event.command),
            is_test_first=_names_edited_test(state, event),
        )
    else:
        failed = replace(known, attempts=_after_another(known.attempts, attempt))
    return replace(state, outstanding=(*others, failed)[-_OUTSTANDING_MAX:], tests=())


def _after_another(attempts: tuple[Attempt, ...], new: Attempt) -> tuple[Attempt, ...]:
    """Add a failure of the same command; what did not end the last error is no fix of it."""
    from commonbrain.text.failures import read_failure  # noqa: PLC0415 see `_after_command`

    last = attempts[-1]
    before, now = read_failure(last.excerpt), read_failure(new.excerpt)
    is_same = before is None or now is None or not {*now.texts}.isdisjoint(before.texts)
    earlier = attempts[:-1] if is_same or not last.steps else attempts
    return (*earlier, new)[-ATTEMPTS_MAX:]


def _names_edited_test(state: SessionFailures, event: HookEvent) -> bool:
    """Return whether a failure is about a test file that was edited right before it."""
    if not state.tests:
        return False
    words = {*_TOKEN.findall(event.command), *_TOKEN.findall(event.output[: EXCERPT_CHARS_MAX * 4])}
    words |= {Path(one).stem for one in event.command.split()}
    return not {_digest(one) for one in words}.isdisjoint(state.tests)


def screened(text: str) -> str:
    """Return a text without secrets and private parts; nothing if one cannot be removed."""
    from commonbrain.model.errors import CommonbrainError  # noqa: PLC0415 only failures need them
    from commonbrain.model.scope import OnSecret  # noqa: PLC0415

    try:
        return _scanner().clean(text, what="output", on_secret=OnSecret.REDACT)
    except CommonbrainError:
        return ""


@cache
def _scanner() -> "SecretScanner":
    from commonbrain.security.secrets import SecretScanner  # noqa: PLC0415 see `screened`

    return SecretScanner()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
