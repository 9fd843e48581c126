"""Who acts, who sees what inside a tenant, and the predicate that says so."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypedDict

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import NAME_CHARS_MAX, RETENTIONS_MAX
from commonbrain.model.sessions import UNKNOWN, ClientInfo
from commonbrain.model.trust import Trust


class PolicyChange(TypedDict, total=False):
    """What of a policy is to be another; what is left out stays."""

    key_calls_per_minute: int | None
    tenant_calls_per_minute: int | None
    memories_max: int | None
    is_boot_required: bool
    is_promotion_automatic: bool
    retention: tuple[str, ...]


OWNERS = frozenset({"key_calls_per_minute", "tenant_calls_per_minute", "memories_max"})
"""What bounds a tenant, and so is not for its own admins to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One tenant's own rules; None leaves a bound to the server's settings."""

    key_calls_per_minute: int | None = None
    """Calls of one credential."""
    tenant_calls_per_minute: int | None = None
    """Calls of all credentials of the tenant together."""
    memories_max: int | None = None
    """Memories held at once, those superseded or forgotten not counted; None is no bound."""
    is_boot_required: bool = False
    """Whether a session must boot before anything else is answered."""
    is_promotion_automatic: bool = False
    """Whether a canary that has shown that it is not worse serves all without being told to."""
    retention: tuple[str, ...] = ()
    """What is kept only for so long, each as `Retention.read` takes it; all else is for ever."""

    def __post_init__(self) -> None:
        """Refuse a bound that lets nothing through.

        Raises:
            InvalidInputError: a rate is below 1, a quota below 0, or there are too many rules of
                retention.

        """
        rates = (self.key_calls_per_minute, self.tenant_calls_per_minute)
        if any(rate is not None and rate < 1 for rate in rates) or (self.memories_max or 0) < 0:
            raise InvalidInputError(
                "A rate is at least 1 a minute and a quota at least 0.",
                hint="To shut a tenant, suspend it.",
            )
        if len(self.retention) > RETENTIONS_MAX:
            raise InvalidInputError(f"A tenant has up to {RETENTIONS_MAX} rules of retention.")


NO_POLICY = Policy()


LOCAL_TENANT: Final = "default"
"""The tenant of the command line, the library and MCP over stdio."""


EVERYBODY: Final = "*"
"""To whom a broadcast goes; nobody bears this name, nor `all`, which says the same."""
NOBODYS_NAMES: Final = frozenset({EVERYBODY, "all"})


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

    def covers(self, other: "Role") -> bool:
        """Say whether who has this role may do what takes the other."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How a caller of a networked door came in."""

    credential: str
    """What the credential is counted under: a key's prefix, or whom a token is of."""
    role: Role
    """The agent's; the caller's own is less where the credential narrows it."""
    policy: Policy = NO_POLICY


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who acts: everything a decision may depend on but for the content itself."""

    tenant: str = LOCAL_TENANT
    agent: str
    role: Role = Role.ADMIN
    session: str | None = None
    contact: ClientInfo = UNKNOWN
    project: str | None = None
    trust_default: Trust = Trust.USER_CLAIM
    trust_ceiling: Trust = Trust.TRUSTED_TOOL
    admission: Admission | None = None
    """None at local doors, whose caller is the store's owner."""
    request_id: str | None = None
    """By which a networked door's log and the audit tell of the same call."""

    def __post_init__(self) -> None:
        """Refuse names that no store or terminal should be given.

        Raises:
            InvalidInputError: a name is empty, too long, or holds something that cannot be printed.

        """
        for what in ("agent", "session", "project", "request_id"):
            name: str | None = getattr(self, what)
            if name is not None and not (name.isprintable() and 0 < len(name) <= NAME_CHARS_MAX):
                raise InvalidInputError(
                    f"The {what} {name[:40]!r} has {len(name)} characters.",
                    hint=f"Give 1 to {NAME_CHARS_MAX} printable ones.",
                )
        if self.agent in NOBODYS_NAMES:
            raise InvalidInputError(
                f"Nobody is called {self.agent}.", hint="It stands for everybody."
            )


class OwnedRow(Protocol):
    """What visibility looks at."""

    @property
    def scope(self) -> Scope:
        """Who sees it."""
        ...

    @property
    def agent(self) -> str:
        """Who wrote it."""
        ...

    @property
    def audience(self) -> tuple[str, ...]:
        """Who beside its author sees it while it is private."""
        ...


def isolates(here: str | None, there: str | None) -> bool:
    """Say whether what holds in one project says nothing in the other; None is every project."""
    return None not in {here, there} and here != there


def is_visible(caller: Caller, owned: OwnedRow) -> bool:
    """Say whether the caller may see it: all of the tenant's but what is private to others."""
    is_own = owned.agent == caller.agent or caller.agent in owned.audience
    return is_own or owned.scope is not Scope.PRIVATE


def check_claims(caller: Caller, *, tenant: str | None, agent: str | None) -> None:
    """Refuse who says to be somebody else than the credential does; None says nothing.

    Raises:
        RejectedError: `tenant_mismatch` or `agent_mismatch`.

    """
    for what, claimed, known in (
        ("tenant", tenant, caller.tenant),
        ("agent", agent, caller.agent),
    ):
        if claimed is not None and claimed != known:
            raise RejectedError(
                f"The credential is not of the {what} that the call claims.",
                code=f"{what}_mismatch",
                hint=f"Leave the {what} out: the credential tells it.",
            )


def check_may_write(caller: Caller, scope: Scope) -> None:
    """Let a caller write into a scope, or say why not.

    Raises:
        RejectedError: `insufficient_role` for readers, `scope_denied` for global without admin.

    """
    if caller.role is Role.READER:
        raise RejectedError(
            f"Agent {caller.agent} is a reader and may not write.",
            code="insufficient_role",
            hint="Ask an admin for the role writer.",
        )
    if scope is Scope.GLOBAL and caller.role is not Role.ADMIN:
        raise RejectedError(
            "Scope global needs the role admin.",
            code="scope_denied",
            hint="Write with scope team or private.",
        )
