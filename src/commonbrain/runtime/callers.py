"""The caller and the store of a short process, found before the command line is loaded.

Imports must be fast.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from commonbrain.folders import default_store
from commonbrain.hosts import is_url
from commonbrain.model.errors import RejectedError
from commonbrain.model.sessions import PASSED_VARIABLES
from commonbrain.model.values import dataclass
from commonbrain.runtime.local_socket import JsonObject, socket_path


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The options before a command, by default from the environment, and the command's words."""

    store: str | None = None
    agent: str | None = None
    session: str | None = None
    tenant: str | None = None
    words: Sequence[str] = ()

    @property
    def identity(self) -> JsonObject:
        """Names under which the caller acts."""
        return {"agent": self.agent, "session": self.session, "tenant": self.tenant}


_GLOBAL: Final = ("store", "agent", "session", "tenant")
OWN_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "agent": frozenset(
        {
            *("audit", "erase", "forget", "list", "recall", "recalls", "timeline", "undo"),
            *("key list", "message history", "session list"),
        }
    ),
    "session": frozenset({"erase", "forget", "list", "recall", "recalls", "timeline", "undo"}),
}
"""Commands with an option of the name of a global one, which filters there."""


def put_global_first(words: Sequence[str]) -> list[str]:
    """Move the options that every command has to its front, as the parsers expect them.

    `--json` moves the other way. `brain help X` and `brain version` are `brain X --help` and
    `brain --version`. What follows `--` stays, and so does an option that the command has too.
    """
    end = words.index("--") if "--" in words else len(words)
    moved: list[str] = []
    left: list[str] = []
    last: list[str] = []
    waiting = deque(words[:end])
    while waiting:
        word = waiting.popleft()
        option, has_value, _ = word.partition("=")
        name = option.removeprefix("--")
        is_owned = OWN_OPTIONS.get(name, frozenset()) & {*left[:1], " ".join(left[:2])}
        if word == "--json" and not left:
            # The command, which may have the options that follow, is still to come.
            last = [word]
        elif option == name or name not in _GLOBAL or is_owned:
            left.append(word)
        else:
            moved += [word] if has_value or not waiting else [word, waiting.popleft()]
    left += last
    match left:
        case ["version"]:
            left = ["--version"]
        case ["help", *command]:
            left = [*command, "--help"]
        case _:
            pass
    return [*moved, *left, *words[end:]]


def parse_command_line(words: Sequence[str], environment: Mapping[str, str]) -> CommandLine | None:
    """Parse the options before a command; None if there is none, or an unknown option."""
    # The parser of the standard library takes a twentieth of the time of a hook.
    given = {name: environment.get(f"COMMONBRAIN_{name.upper()}") or None for name in _GLOBAL}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, has_value, value = rest.pop(0).partition("=")
        name = option.removeprefix("--")
        value = value if has_value else (rest.pop(0) if rest else "-")
        if name not in given or option == name or (value.startswith("-") and not has_value):
            return None
        given[name] = value
    return CommandLine(**given, words=tuple(rest)) if any(rest[:1]) else None


AGENT_VARIABLES: Final = frozenset(
    {
        *("AI_AGENT", "AMP_CURRENT_THREAD_ID", "ANTIGRAVITY_AGENT", "AUGMENT_AGENT"),
        *("CLAUDECODE", "CLAUDE_CODE", "CLINE_ACTIVE", "CODEX_CI", "CODEX_SANDBOX"),
        *("CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "COPILOT_CLI", "COPILOT_MODEL"),
        *("CURSOR_AGENT", "GEMINI_CLI", "GOOSE_TERMINAL", "JUNIE_DATA", "KIRO_SESSION_ID"),
        *("OPENCODE", "OPENCODE_CLIENT", "QWEN_CODE", "TRAE_AI_SHELL_ID"),
    }
)
"""Variables that coding agents set for the commands that they run.

Those of editors whose user types in the same terminal, such as CURSOR_TRACE_ID, are not among them.
"""


def is_of_person(environment: Mapping[str, str]) -> bool:
    """Return whether a person runs this command: at a terminal, and not through an agent.

    It is enough that stdin or stderr is a terminal, so that output can be redirected.
    """
    streams = (sys.stdin, sys.stderr)
    return not _is_of_agent(environment) and any(
        stream is not None and stream.isatty() for stream in streams
    )


def acts_for_owner(environment: Mapping[str, str]) -> bool:
    """Return whether the owner lets this process act as a person does: the setting `as_owner`.

    It does not count in a command that an agent runs: a folder's files can set its environment.
    """
    is_set = environment.get("COMMONBRAIN_AS_OWNER", "").strip().lower() in TRUE_WORDS
    return is_set and not _is_of_agent(environment)


def runs_for_agent(environment: Mapping[str, str]) -> bool:
    """Return whether the client says that its agent runs this command, as Claude Code does."""
    return environment.get("AI_AGENT", "").endswith("_agent")


def is_attended(environment: Mapping[str, str]) -> bool:
    """Return whether a client runs this as a hook of its own while its user attends it.

    Claude Code says so since 2.1.330. Its agent's commands have another value, unless they set this
    one; the variables of another agent count against it.
    """
    others = AGENT_VARIABLES & set(environment) - {"AI_AGENT", "CLAUDECODE", "CLAUDE_CODE"}
    is_hook = environment.get("AI_AGENT", "").endswith("_harness")
    return is_hook and environment.get("CLAUDE_CODE_SESSION_ATTENDED") == "1" and not others


def _is_of_agent(environment: Mapping[str, str]) -> bool:
    # An empty one counts too: a folder's files could take the value away.
    return not AGENT_VARIABLES.isdisjoint(environment)


def check_command_is_of_person(what: str) -> None:
    """Check that a person runs this command, or the owner's word; `what` names what it does.

    Raises:
        RejectedError: `person_required`; nothing was done.

    """
    if acts_for_owner(os.environ) or is_of_person(os.environ):
        return
    raise RejectedError(
        f"{what} takes a person.",
        code="person_required",
        hint="Run it in a terminal of your own. A script that acts for its owner sets "
        "COMMONBRAIN_AS_OWNER=true.",
    )


def ask_for_passphrases(ask: Callable[[str], str]) -> None:
    """Ask a person for the passphrase of a sealed store that no key opens."""
    # Only needed at a terminal.
    from commonbrain.storage.sqlite.sealing import ASK  # noqa: PLC0415

    ASK.set(ask)


def describe_process() -> JsonObject:
    """Describe this process for one that works on its behalf."""
    try:
        folder = str(Path.cwd())
    except OSError:
        # It was deleted meanwhile.
        folder = None
    variables = {name: os.environ[name] for name in PASSED_VARIABLES & set(os.environ)}
    return {
        "pid": os.getpid(),
        "cwd": folder,
        "variables": variables,
        "is_owner": acts_for_owner(os.environ),
        "is_person": is_of_person(os.environ),
    }


TRUE_WORDS: Final = frozenset({"on", "1", "true", "yes", "y", "t"})
"""Values that the settings read as true."""
FALSE_WORDS: Final = frozenset({"off", "0", "false", "no", "n", "f"})
"""Values that the settings read as false."""


def is_off(variable: str, environment: Mapping[str, str]) -> bool:
    """Return whether a variable switches something off, before the settings are loaded."""
    return environment.get(variable, "").strip().lower() in FALSE_WORDS


def may_share(environment: Mapping[str, str]) -> bool:
    """Return whether callers may use a process of the store that no client of theirs started."""
    # The files may name the agent and the session.
    has_files = bool(environment.get("COMMONBRAIN_SECRETS_DIR"))
    return not (has_files or is_off("COMMONBRAIN_MCP_SHARED", environment))


def store_socket(store: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the socket of a store; None if it has none."""
    given = str(store or environment.get("COMMONBRAIN_STORE", ""))
    location = given if is_url(given) else store_file(store, environment)
    return None if location is None else socket_path(location, environment)


def store_file(store: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file of a store, before the settings are loaded; None if it is not a file here.

    Args:
        store: the store of the call; by default that of the environment, or the user's own.
        environment: the environment of the process.

    """
    given = str(store or environment.get("COMMONBRAIN_STORE", ""))
    if is_url(given) or (not given and environment.get("COMMONBRAIN_SECRETS_DIR")):
        return None
    return Path(given) if given else default_store()


def store_may_be_sealed(store: str | Path | None, environment: Mapping[str, str]) -> bool:
    """Return whether a store is a file that is sealed, by its first bytes, or is not known yet."""
    # See below.
    from commonbrain.storage.sqlite import begins_sealed  # noqa: PLC0415

    file = store_file(store, environment)
    if file is None:
        return not is_url(str(store or environment.get("COMMONBRAIN_STORE", "")))
    return begins_sealed(file.expanduser())


def store_may_mention(
    store: str | Path | None, phrases: Sequence[str], *, environment: Mapping[str, str]
) -> bool:
    """Return whether a store is worth a closer look: always if it is not a file here.

    Args:
        store: the store of the call; by default that of the environment, or the user's own.
        phrases: words or names, of which one is enough.
        environment: the environment of the process.

    """
    # Hooks that have nothing to do import no more than this.
    from commonbrain.storage.sqlite.driver import may_mention  # noqa: PLC0415

    file = store_file(store, environment)
    key_file = environment.get("COMMONBRAIN_KEY_FILE")
    return file is None or may_mention(file, phrases, key_file=Path(key_file) if key_file else None)
