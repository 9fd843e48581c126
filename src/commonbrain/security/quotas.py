"""How much and how fast callers of networked doors may: rates, and a tenant's quota."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from commonbrain.clock import Clock
from commonbrain.model.errors import LimitExceededError
from commonbrain.model.limits import KEY_CALLS_PER_MINUTE, TENANT_CALLS_PER_MINUTE, USAGE_KEPT_S
from commonbrain.model.memory import State
from commonbrain.model.scope import Caller

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction


class RateLimiter(Protocol):
    """Counts what is done within the last minute, for every process that shares the counts."""

    def take(self, name: str, *, per_minute: int) -> int | None:
        """Count one more unless that is too many; give the seconds to wait where it is."""
        ...

    def wait(self, name: str, *, per_minute: int) -> int | None:
        """Give the seconds to wait where the next one would be too many; count nothing."""
        ...


UNCOUNTED_STATES = frozenset({State.SUPERSEDED, State.FORGOTTEN})
"""What nobody holds any more, though its row is there: who is full can still mend and forget."""


@dataclass(slots=True)
class _Count:
    """How many memories a tenant held when they were counted, and what was stored since."""

    at_ms: float
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Counts calls and memories; what a policy leaves open is bounded by the settings."""

    store: Store
    clock: Clock
    rates: Callable[[], RateLimiter]
    key_calls_per_minute: int = KEY_CALLS_PER_MINUTE
    tenant_calls_per_minute: int = TENANT_CALLS_PER_MINUTE
    _counts: dict[str, _Count] = field(default_factory=dict[str, "_Count"])

    def check_rate(self, caller: Caller) -> None:
        """Count a call of a credential and of its tenant; local callers call as they like.

        Raises:
            LimitExceededError: `rate_limited`, with the seconds to wait.

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
                raise LimitExceededError(
                    f"{whose} may call {per_minute} times a minute.",
                    hint=f"Wait {wait_s} s.",
                    retry_after_s=wait_s,
                )

    def check_quota(self, caller: Caller) -> None:
        """Refuse a tenant that is full before its text is read; it may not fit even if this passes.

        Raises:
            LimitExceededError: `quota_exceeded`.

        """
        most = _most(caller)
        if most is None or self._known(caller.tenant, below=most) is not None:
            return
        with self.store.snapshot(caller.tenant) as tx:
            count = self._count(tx, caller.tenant)
        if count.memories >= most:
            raise _full(f"This tenant holds {count.memories} memories and may hold {most}.")

    def reserve(self, caller: Caller, tx: Transaction) -> None:
        """Count one more memory, which is about to be stored, unless there is no room for it.

        They are counted anew when there seems to be no room, so that nobody is refused for what
        was not stored after all, and every `USAGE_KEPT_S` seconds by each process, which adds what
        it stores itself: several may together let in a little too much.

        Raises:
            LimitExceededError: `quota_exceeded`; what was stored by the same transaction is not
                kept either.

        """
        most = _most(caller)
        if most is None:
            return
        count = self._known(caller.tenant, below=most) or self._count(tx, caller.tenant)
        if count.memories >= most:
            raise _full(f"This tenant may hold {most} memories, and this would be more.")
        count.memories += 1

    def _known(self, tenant: str, *, below: int) -> _Count | None:
        """Give what was counted not long ago, where it leaves room."""
        known = self._counts.get(tenant)
        if known is None or known.memories >= below:
            return None
        is_new = self.clock.elapsed_ms() - known.at_ms < USAGE_KEPT_S * 1000
        return known if is_new else None

    def _count(self, tx: Transaction, tenant: str) -> _Count:
        count = self._counts[tenant] = _Count(self.clock.elapsed_ms(), count_stored(tx))
        return count


def _most(caller: Caller) -> int | None:
    return caller.admission.policy.memories_max if caller.admission else None


def _full(message: str) -> LimitExceededError:
    return LimitExceededError(
        message,
        code="quota_exceeded",
        hint="Forget what is not needed any more, or ask who runs the server for more.",
    )


def count_stored(tx: Transaction) -> int:
    """Count what a tenant holds: all but what was superseded or forgotten."""
    counts = tx.memories.counts().items()
    return sum(count for (_, state), count in counts if state not in UNCOUNTED_STATES)
