"""The table of operations, from which the command line, MCP and REST are built.

To add an operation, add a file with its `Operation` and a row to `OPERATIONS`. A row is all that
the command line needs to list its commands, and MCP to choose its tools; the file is imported when
the operation is used.

An operation of another package has a row here too, with the extra that installs it, and its
package gives its `Operation` under `commonbrain.operations`.
"""

from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from commonbrain.api.operation import Command, Operation, Profile, Transport
from commonbrain.extras import is_installed, load_row
from commonbrain.model.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """One operation of the table; its file in this folder, or its entry point, has its name."""

    name: str
    summary: str
    """What it does, in at most 60 characters, for `brain --help`."""
    commands: tuple[str, ...]
    """Its commands on the command line; one of two words belongs to the group of the first."""
    tool: Profile | None = Profile.CORE
    """The smallest profile of MCP tools that includes it; None if it is no tool."""
    extra: str | None = None
    """The extra that installs its package, `commonbrain_{extra}`, if it is not of the core."""

    @property
    def is_installed(self) -> bool:
        """Whether it can be loaded."""
        return self.extra is None or is_installed(f"commonbrain_{self.extra}")

    def load(self) -> Operation[Any, Any]:
        """Import the operation.

        Raises:
            InvalidInputError: `extra_missing`.

        """
        if self.extra is not None:
            return cast("Operation[Any, Any]", load_row("operations", self.name, extra=self.extra))
        module = import_module(f"{__name__}.{self.name}")
        operation: Operation[Any, Any] = getattr(module, self.name.upper())
        return operation


def _row(
    name: str,
    summary: str,
    *commands: str,
    tool: Profile | None = Profile.CORE,
    extra: str | None = None,
) -> OperationRow:
    return OperationRow(name=name, summary=summary, commands=commands, tool=tool, extra=extra)


def _grouped(group: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{group} {name}" for name in names)


_SESSION: Final = ("list", "task", "handoff", "end", "note", "notes", "checkpoint")
_MESSAGE: Final = (
    *("send", "reply", "inbox", "read", "ack"),
    *("history", "threads", "thread", "delegate", "delegated"),
)
_TRACE: Final = (
    *("causes", "effects", "before", "patterns"),
    *("deepen", "dependents", "provenance"),
)
_MODEL: Final = ("list", "show", "canary", "promote", "rollback", "retire", "guards", "train")

OPERATIONS: Final[tuple[OperationRow, ...]] = (
    _row("boot", "Show the rules, tasks and messages to start with.", "boot", tool=Profile.LITE),
    _row(
        "remember",
        "Store a decision, fact, rule or task.",
        *("remember", "task add", "skill add"),
        tool=Profile.LITE,
    ),
    _row("recall", "Find what is known about a topic.", "recall", "timeline", tool=Profile.LITE),
    _row("list", "List memories by filters, with counts.", "list", tool=None),
    _row("get", "Show memories in full by id.", "get", "skill show", tool=Profile.LITE),
    _row(
        "revise",
        "Correct, link, rate or approve a memory.",
        "revise",
        *_grouped("task", "done", "block", "open", "ack"),
    ),
    _row("forget", "Remove memories from recall.", "forget", "undo", "erase", "prune"),
    _row("bulk", "Tag, pin, archive or confirm many memories.", "bulk", tool=None),
    _row("trace", "Show causes, effects and sources.", *_grouped("trace", *_TRACE)),
    _row(
        "session",
        "Show sessions, take notes, hand over work.",
        *_grouped("session", *_SESSION),
        *_grouped("task", "list", "claim", "release"),
        tool=Profile.LITE,
    ),
    _row("message", "Send and read messages.", *_grouped("message", *_MESSAGE)),
    _row("skill", "List skills.", *_grouped("skill", "list", "test"), tool=None),
    _row("job", "Show and start jobs.", *_grouped("job", "list", "show", "run", "retry", "cancel")),
    _row("status", "Count what is stored and what needs review.", "status"),
    _row("recalls", "Show what past recalls considered and returned.", "recalls", tool=None),
    _row("review", "List what needs a decision.", "review", tool=None),
    _row("doctor", "Check the store and its indexes.", "doctor", tool=None),
    _row(
        "atomize",
        "Extract causes and effects from memories.",
        "atomize",
        tool=None,
        extra="causes",
    ),
    _row(
        "model",
        "Show and roll out models.",
        *_grouped("model", *_MODEL),
        tool=Profile.OPERATOR,
        extra="learn",
    ),
    _row("why_failed", "Find what fixed a failure before.", "why-failed", tool=None),
    _row("reflect", "Summarise recent events into episodes.", "reflect", tool=None),
    _row(
        "admin",
        "Manage agents, keys and policy.",
        *_grouped("agent", "list", "set", "disable", "enable"),
        *_grouped("key", "list", "create", "invite", "rotate", "revoke"),
        *_grouped("tenant", "usage", "refusals"),
        tool=Profile.OPERATOR,
        extra="server",
    ),
    _row("audit", "List who changed what and when.", "audit", tool=Profile.OPERATOR),
    _row(
        "tenant",
        "Manage tenants.",
        *_grouped("tenant", "list", "create", "show", "suspend", "resume", "policy"),
        tool=None,
        extra="server",
    ),
)


def load_operation(name: str) -> Operation[Any, Any]:
    """Import one operation.

    Raises:
        InvalidInputError: `extra_missing`: its package is not installed.

    """
    return next(row for row in OPERATIONS if row.name == name).load()


@cache
def load_operations() -> tuple[Operation[Any, Any], ...]:
    """Import every operation that is installed, in the order of the table."""
    return tuple(row.load() for row in OPERATIONS if row.is_installed)


__all__ = [
    "OPERATIONS",
    "Command",
    "Operation",
    "OperationRow",
    "Profile",
    "Transport",
    "load_operation",
    "load_operations",
]
