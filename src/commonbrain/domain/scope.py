"""Who acts, who sees what inside a tenant, and the predicate that says so."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from commonbrain.domain.errors import Refused
from commonbrain.domain.trust import Trust

LOCAL_TENANT: Final = "default"
"""The tenant of the command line, the library and MCP over stdio."""


class Scope(StrEnum):
    """Who sees a memory inside its tenant; writing `GLOBAL` needs an admin."""

    PRIVATE = "private"
    TEAM = "team"
    GLOBAL = "global"


class Role(StrEnum):
    """What an agent may do: read, also write, also govern."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who acts: everything a decision may depend on but for the content itself."""

    tenant: str = LOCAL_TENANT
    agent: str
    role: Role = Role.ADMIN
    session: str | None = None
    project: str | None = None
    trust_default: Trust = Trust.USER_CLAIM
    trust_ceiling: Trust = Trust.TRUSTED_TOOL


class Owned(Protocol):
    """What visibility looks at."""

    @property
    def scope(self) -> Scope:
        """Who sees it."""
        ...

    @property
    def agent(self) -> str:
        """Who wrote it."""
        ...


def is_visible(caller: Caller, owned: Owned) -> bool:
    """Say whether the caller may see it: all of the tenant's but other agents' private ones."""
    return owned.scope is not Scope.PRIVATE or owned.agent == caller.agent


def check_may_write(caller: Caller, scope: Scope) -> None:
    """Let a caller write into a scope, or say why not.

    Raises:
        Refused: `insufficient_role` for readers, `scope_denied` for global without admin.

    """
    if caller.role is Role.READER:
        raise Refused(
            f"Agent {caller.agent} is a reader and may not write.",
            code="insufficient_role",
            hint="Ask an admin for the role writer.",
        )
    if scope is Scope.GLOBAL and caller.role is not Role.ADMIN:
        raise Refused(
            "Scope global needs the role admin.",
            code="scope_denied",
            hint="Write with scope team or private.",
        )
