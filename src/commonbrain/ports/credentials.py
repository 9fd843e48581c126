"""The shelf of access: a tenant's standing, its agents, their keys, and the audit of refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from commonbrain.domain.credentials import Agent, ApiKey
from commonbrain.domain.policy import NO_POLICY, Policy

ADMITTING: Final = "admit"
"""The action under which the audit tells of who was turned away at the door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant, as its owner sees it."""

    name: str
    created_at: datetime
    policy: Policy = NO_POLICY
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEntry:
    """One line of the audit of access: who was refused what and why, or governed what."""

    at: datetime
    action: str
    """The operation that was asked for, or what was done to whom can call."""
    code: str | None = None
    """Why it was refused; None when it was done."""
    agent: str | None = None
    """None when nobody could be told from the credential."""
    credential: str | None = None
    request_id: str | None = None
    subject: str | None = None
    """The agent or key that was governed."""
    count: int = 1
    """How many alike this line stands for."""


class Credentials(Protocol):
    """The shelf of who may call."""

    def tenant(self) -> Tenant | None:
        """Give the tenant; None where there is none of that name."""
        ...

    def set_policy(self, policy: Policy) -> None:
        """Put a policy in the place of the tenant's."""
        ...

    def suspend(self, at: datetime | None) -> None:
        """Shut the networked doors to the whole tenant, or open them again with None."""
        ...

    def agents(self, *, limit: int) -> list[Agent]:
        """List the agents by name."""
        ...

    def agent(self, name: str) -> Agent | None:
        """Give an agent; None when there is none of that name."""
        ...

    def save_agent(self, agent: Agent) -> None:
        """Write an agent whole, over what is there under its name; when it was made stays."""
        ...

    def keys(self, *, limit: int, now: datetime, agent: str | None = None) -> list[ApiKey]:
        """List keys, those of one agent if one is named: the good first, then the newest."""
        ...

    def good_keys(self, now: datetime) -> int:
        """Count the keys that are good."""
        ...

    def key(self, prefix: str) -> ApiKey | None:
        """Give a key, good or not; None when there is none."""
        ...

    def held(self, prefixes: Sequence[str]) -> dict[str, tuple[ApiKey, Agent | None]]:
        """Give keys, good or not, with the agents they are of; what there is none of is absent."""
        ...

    def add_key(self, key: ApiKey) -> bool:
        """Store a new key; say whether its prefix was free, for nothing is stored otherwise."""
        ...

    def end_key(self, prefix: str, *, revoked_at: datetime | None, expires_at: datetime) -> None:
        """Let a key end no later than that; a moment that is set already is never put off."""
        ...

    def used(self, prefixes: Sequence[str], *, at: datetime) -> None:
        """Note when keys were last used; a moment is never moved back."""
        ...

    def note(self, entry: AccessEntry) -> None:
        """Append one line that is never changed."""
        ...

    def noted(self, *, limit: int) -> list[AccessEntry]:
        """List the newest lines, the newest first."""
        ...
