"""How much and how fast callers of networked doors may: rates, and a tenant's quota."""

from collections.abc import Callable
from dataclasses import dataclass, field

from commonbrain.domain.errors import Limited
from commonbrain.domain.limits import (
    KEY_CALLS_PER_MINUTE,
    TENANT_CALLS_PER_MINUTE,
    USAGE_KEPT_S,
)
from commonbrain.domain.memory import State
from commonbrain.domain.scope import Caller
from commonbrain.ports.clock import Clock
from commonbrain.ports.rates import Rates
from commonbrain.ports.store import Store, Transaction

UNCOUNTED = frozenset({State.SUPERSEDED, State.FORGOTTEN})
"""What nobody holds any more, though its row is there: who is full can still mend and forget."""


@dataclass(slots=True)
class _Count:
    """How many memories a tenant held when they were counted, and what was let in since."""

    at_ms: float
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Counts calls and memories; what a policy leaves open is bounded by the settings."""

    store: Store
    clock: Clock
    rates: Callable[[], Rates]
    key_calls_per_minute: int = KEY_CALLS_PER_MINUTE
    tenant_calls_per_minute: int = TENANT_CALLS_PER_MINUTE
    _counts: dict[str, _Count] = field(default_factory=dict[str, "_Count"])

    def check_rate(self, caller: Caller) -> None:
        """Count a call of a credential and of its tenant; local callers call as they like.

        Raises:
            Limited: `rate_limited`, with the seconds to wait.

        """
        if caller.admission is None:
            return
        policy = caller.admission.policy
        a_key = policy.key_calls_per_minute or self.key_calls_per_minute
        all_keys = policy.tenant_calls_per_minute or self.tenant_calls_per_minute
        for whose, name, per_minute in (
            ("This credential", f"{caller.tenant}/{caller.admission.credential}", a_key),
            ("This tenant", caller.tenant, all_keys),
        ):
            wait_s = self.rates().take(name, per_minute=per_minute)
            if wait_s is not None:
                raise Limited(
                    f"{whose} may call {per_minute} times a minute.",
                    hint=f"Wait {wait_s} s.",
                    retry_after_s=wait_s,
                )

    def check_quota(self, caller: Caller, *, adding: int) -> None:
        """Refuse what would be more memories than the tenant may hold.

        They are counted every `USAGE_KEPT_S` seconds by each process, which adds what it lets in
        itself, so that several may together let in a little too much.

        Raises:
            Limited: `quota_exceeded`.

        """
        policy = caller.admission.policy if caller.admission else None
        if policy is None or policy.memories_max is None or not adding:
            return
        count = self._counted(caller.tenant)
        if count.memories + adding > policy.memories_max:
            raise Limited(
                f"This tenant holds {count.memories} memories and may hold {policy.memories_max}.",
                code="quota_exceeded",
                hint="Forget what is not needed any more, or ask who runs the server for more.",
            )
        count.memories += adding

    def _counted(self, tenant: str) -> _Count:
        now_ms = self.clock.elapsed_ms()
        known = self._counts.get(tenant)
        if known is None or now_ms - known.at_ms >= USAGE_KEPT_S * 1000:
            with self.store.snapshot(tenant) as tx:
                known = _Count(now_ms, held(tx))
            self._counts[tenant] = known
        return known


def held(tx: Transaction) -> int:
    """Count what a tenant holds: all but what was superseded or forgotten."""
    counts = tx.memories.counts().items()
    return sum(count for (_, state), count in counts if state not in UNCOUNTED)
