"""What a tenant's policy settles: how much, how fast, and what must come first."""

from dataclasses import dataclass
from typing import TypedDict

from commonbrain.domain.errors import Invalid
from commonbrain.domain.limits import RETENTIONS_MAX


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
            Invalid: a rate is below 1, a quota below 0, or there are too many rules of retention.

        """
        rates = (self.key_calls_per_minute, self.tenant_calls_per_minute)
        if any(rate is not None and rate < 1 for rate in rates) or (self.memories_max or 0) < 0:
            raise Invalid(
                "A rate is at least 1 a minute and a quota at least 0.",
                hint="To shut a tenant, suspend it.",
            )
        if len(self.retention) > RETENTIONS_MAX:
            raise Invalid(f"A tenant has up to {RETENTIONS_MAX} rules of retention.")


NO_POLICY = Policy()
