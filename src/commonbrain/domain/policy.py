"""What a tenant's policy settles: how much, how fast, and what must come first."""

from dataclasses import dataclass


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


NO_POLICY = Policy()
