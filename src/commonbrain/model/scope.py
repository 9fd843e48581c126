"""Callers, roles, policies, and who may see a memory within a tenant."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol, Self

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import NAME_CHARS_MAX, RETENTIONS_MAX
from commonbrain.model.sessions import UNKNOWN, ClientInfo
from commonbrain.model.values import dataclass, replace


class Trust(StrEnum):
    """The source of a text; `weight` (0..1) orders them and enters ranking."""

    weight: float

    # An attribute instead of a property, because recall reads it for every candidate.
    def __new__(cls, value: str, weight: float) -> Self:
        """Create a member with its weight."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.weight = weight
        return member

    TRUSTED_TOOL = "trusted_tool", 1.0
    USER_CLAIM = "user_claim", 0.7
    UNTRUSTED_WEB = "untrusted_web", 0.35


class Authority(StrEnum):
    """Who wrote a text, the most authoritative first; derived from the way in, never claimed.

    What a higher authority wrote is ended, hidden or replaced by it alone, see `covers`.
    """

    PERSON = "person"
    """A person on the page or at a terminal, or what a person let act for them."""
    MODEL = "model"
    """A model of its own accord."""
    CAPTURED = "captured"
    """Taken from what a model said, or from a file that nobody confirmed."""
    WEB = "web"
    """Untrusted content."""

    @property
    def rank(self) -> int:
        """Place in the order: 0 for a person, and more for each that is lower."""
        return _RANKS[self]

    def covers(self, other: "Authority") -> bool:
        """Return whether this authority is at least as high as another."""
        return self.rank <= other.rank


_RANKS: Final = {one: rank for rank, one in enumerate(Authority)}


def lowest(authorities: Iterable[Authority]) -> Authority:
    """Return the lowest of some authorities; at least one is needed."""
    return max(authorities, key=lambda one: one.rank)


def granted(claimed: Trust | None, *, default: Trust, ceiling: Trust) -> Trust:
    """Return the trust of a write: the claim, or the default up to the ceiling.

    Raises:
        RejectedError: `trust_override_denied`, the claim is above the ceiling.

    """
    if claimed is None:
        return min(default, ceiling, key=lambda trust: trust.weight)
    if claimed.weight > ceiling.weight:
        raise RejectedError(
            f"Trust {claimed} is above what this caller may claim, which is {ceiling}.",
            code="trust_override_denied",
            hint=f"Leave trust out, or give {ceiling} or lower.",
        )
    return claimed


class OnSecret(StrEnum):
    """What to do with a text that contains a secret."""

    REJECT = "reject"
    REDACT = "redact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one tenant; None uses the server's settings."""

    key_calls_per_minute: int | None = None
    """Calls with one credential."""
    tenant_calls_per_minute: int | None = None
    """Calls with all credentials of the tenant together."""
    memories_max: int | None = None
    """Stored memories, without superseded and forgotten ones; None is unlimited."""
    is_boot_required: bool = False
    """Whether a session must boot before any other call."""
    is_promotion_automatic: bool = False
    """Whether a canary that is not worse becomes active automatically."""
    retention: tuple[str, ...] = ()
    """Retention rules as `Retention.read` parses them; everything else is kept."""
    parameters: tuple[str, ...] = ()
    """Parameters such as `trust_min=0.6`; all others are the server's."""
    are_reads_audited: bool = False
    """Whether the audit has a line for each memory of which a call shows text.

    Off by default: each read then writes, and the recall log shows recent recalls anyway.
    """

    def __post_init__(self) -> None:
        """Reject limits that allow nothing.

        Raises:
            InvalidInputError: a rate is below 1, a quota below 0, or there are too many retention
                rules.

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
"""The recipient of a broadcast; no agent can have this name, nor its synonym `all`."""
NOBODYS_NAMES: Final = frozenset({EVERYBODY, "all"})


class Scope(StrEnum):
    """Who sees a memory within its tenant; only an admin may write `GLOBAL`."""

    PRIVATE = "private"
    TEAM = "team"
    GLOBAL = "global"


class Role(StrEnum):
    """What an agent may do: read, also write, also administer."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def covers(self, other: "Role") -> bool:
        """Return whether this role includes another."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How a network caller was authenticated."""

    credential: str
    """The key under which the credential is counted: a key's prefix, or the subject of a token."""
    role: Role
    """The agent's role; the caller's may be less if the credential is limited."""
    policy: Policy = NO_POLICY
    expires_at: datetime | None = None
    """When the credential expires; None if it has no set end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of an operation: everything that decisions depend on, except the content."""

    tenant: str = LOCAL_TENANT
    agent: str
    role: Role = Role.ADMIN
    session: str | None = None
    contact: ClientInfo = UNKNOWN
    is_session_shared: bool = False
    """Whether the call names no session, so that others of its client may use this one too."""
    project: str | None = None
    trust_default: Trust = Trust.USER_CLAIM
    trust_ceiling: Trust = Trust.TRUSTED_TOOL
    authority: Authority = Authority.MODEL
    """Who writes; a person's only where a program, terminal or page stands for one."""
    admission: Admission | None = None
    """None for local callers, who own the store."""
    request_id: str | None = None
    """Identifies a call in the server's log and the audit."""

    def __post_init__(self) -> None:
        """Reject names that could harm a store or a terminal.

        Raises:
            InvalidInputError: a name is empty, too long, or not printable.

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
                f"An agent cannot be called {self.agent}.", hint="The name means everyone."
            )

    @property
    def local_folder(self) -> str | None:
        """The folder in which it works; None for callers of a server, which reads no files."""
        return None if self.admission is not None else self.contact.cwd

    def limited_to(self, other: Self) -> Self:
        """Return this caller with no more role, trust or authority than another."""
        ceilings = (self.trust_ceiling, other.trust_ceiling)
        return replace(
            self,
            role=self.role if other.role.covers(self.role) else other.role,
            trust_ceiling=min(ceilings, key=lambda trust: trust.weight),
            authority=lowest([self.authority, other.authority]),
        )


class OwnedRow(Protocol):
    """The attributes that decide visibility."""

    @property
    def scope(self) -> Scope:
        """Who sees it."""
        ...

    @property
    def agent(self) -> str:
        """Its author."""
        ...

    @property
    def audience(self) -> tuple[str, ...]:
        """Further readers of a private memory."""
        ...


def isolates(here: str | None, there: str | None) -> bool:
    """Return whether two projects are separate; None applies to every project."""
    return None not in {here, there} and here != there


def is_visible(caller: Caller, owned: OwnedRow) -> bool:
    """Return whether the caller may see it.

    Everything in the tenant except others' private data.
    """
    is_own = owned.agent == caller.agent or caller.agent in owned.audience
    return is_own or owned.scope is not Scope.PRIVATE


def who_may(caller: Caller, role: Role) -> str:
    """Return the next step of a caller that lacks a role."""
    if caller.admission is None:
        return "Ask the user to do it in a terminal (`brain`) or on the page (`brain ui`)."
    return f"Ask an admin for the role {role}."


def check_may_write(caller: Caller, scope: Scope) -> None:
    """Check that a caller may write into a scope.

    Raises:
        RejectedError: `insufficient_role` for readers, `scope_denied` for global without admin.

    """
    if caller.role is Role.READER:
        raise RejectedError(
            f"Agent {caller.agent} is a reader and may not write.",
            code="insufficient_role",
            hint=who_may(caller, Role.WRITER),
        )
    if scope is Scope.GLOBAL and caller.role is not Role.ADMIN:
        raise RejectedError(
            "Scope global needs the role admin.",
            code="scope_denied",
            hint="Write with scope team or private.",
        )
