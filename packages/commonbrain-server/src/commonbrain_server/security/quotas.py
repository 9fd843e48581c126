"""Rate limits of networked callers and storage quotas of tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from commonbrain.clock import Clock
from commonbrain.model.errors import LimitExceededError
from commonbrain.model.limits import (
    ACCESS_CACHE_S,
    KEY_CALLS_PER_MINUTE,
    TENANT_CALLS_PER_MINUTE,
    USAGE_CACHE_S,
)
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, field
from commonbrain.security.guard import UNCOUNTED_STATES

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction


class RateLimiter(Protocol):
    """Counts calls within the last minutes, over all processes that share the counts."""

    def take(self, name: str, *, per_minute: int) -> int | None:
        """Count one call, or return the seconds to wait if the limit is reached."""
        ...

    def wait(self, name: str, *, per_minute: int) -> int | None:
        """Return the seconds to wait if the limit is reached, without counting."""
        ...

    def claim(self, name: str, *, minutes: int) -> bool:
        """Claim a name; return False if it was claimed within the last minutes."""
        ...


@dataclass(slots=True)
class _Count:
    """Number of memories of a tenant at the last count, and of those stored since."""

    at_ms: float
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A caller above its rate; a change of its policy applies when the block ends."""

    message: str
    wait_s: int
    until_ms: float

    def error(self) -> LimitExceededError:
        """Return the error of a rejected call."""
        return LimitExceededError(
            self.message, hint=f"Wait {self.wait_s} s.", retry_after_s=self.wait_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Limits calls and memories; the settings bound what a tenant's policy leaves open."""

    store: Store
    clock: Clock
    rates: RateLimiter
    key_calls_per_minute: int = KEY_CALLS_PER_MINUTE
    tenant_calls_per_minute: int = TENANT_CALLS_PER_MINUTE
    _counts: dict[str, _Count] = field(default_factory=dict[str, "_Count"])
    _blocked: dict[str, _Block] = field(default_factory=dict[str, "_Block"])

    def check_blocked(self, caller: Caller) -> None:
        """Reject a caller that `check_rate` rejected a moment ago, without counting or reading.

        Raises:
            LimitExceededError: `rate_limited`, with the seconds to wait.

        """
        if caller.admission is None or not self._blocked:
            return
        now_ms = self.clock.elapsed_ms()
        for name in (_credential_name(caller), caller.tenant):
            block = self._blocked.get(name)
            if block is not None and now_ms < block.until_ms:
                raise block.error()

    def check_rate(self, caller: Caller) -> None:
        """Count a call of a credential and of its tenant; local callers are not limited.

        Raises:
            LimitExceededError: `rate_limited`, with the seconds to wait.

        """
        if caller.admission is None:
            return
        policy = caller.admission.policy
        a_key = policy.key_calls_per_minute or self.key_calls_per_minute
        all_keys = policy.tenant_calls_per_minute or self.tenant_calls_per_minute
        for whose, name, per_minute in (
            ("This credential", _credential_name(caller), a_key),
            ("This tenant", caller.tenant, all_keys),
        ):
            wait_s = self.rates.take(name, per_minute=per_minute)
            if wait_s is not None:
                message = f"{whose} may call {per_minute} times a minute."
                raise self._block(name, message, wait_s=wait_s).error()

    def _block(self, name: str, message: str, *, wait_s: int) -> _Block:
        now_ms = self.clock.elapsed_ms()
        for known, block in list(self._blocked.items()):
            if block.until_ms <= now_ms:
                self._blocked.pop(known, None)
        until_ms = now_ms + 1000 * min(wait_s, ACCESS_CACHE_S)
        self._blocked[name] = _Block(message=message, wait_s=wait_s, until_ms=until_ms)
        return self._blocked[name]

    def check_quota(self, caller: Caller) -> None:
        """Reject a tenant at its quota before processing its text; `reserve` decides.

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
        """Count one more memory that is about to be stored.

        Each process recounts every `USAGE_CACHE_S` seconds and adds what it stores in between, so
        several processes together may exceed the quota slightly. It also recounts before it
        rejects, so that memories that were not stored after all do not count.

        Raises:
            LimitExceededError: `quota_exceeded`; the transaction must be rolled back.

        """
        most = _most(caller)
        if most is None:
            return
        count = self._known(caller.tenant, below=most) or self._count(tx, caller.tenant)
        if count.memories >= most:
            raise _full(f"This tenant may hold {most} memories, and this would be more.")
        count.memories += 1

    def _known(self, tenant: str, *, below: int) -> _Count | None:
        """Return a recent count that is below the quota, if any."""
        known = self._counts.get(tenant)
        if known is None or known.memories >= below:
            return None
        is_new = self.clock.elapsed_ms() - known.at_ms < USAGE_CACHE_S * 1000
        return known if is_new else None

    def _count(self, tx: Transaction, tenant: str) -> _Count:
        count = self._counts[tenant] = _Count(self.clock.elapsed_ms(), count_stored(tx))
        return count


def count_stored(tx: Transaction) -> int:
    """Count the memories of a tenant, except superseded and forgotten ones."""
    counts = tx.memories.counts().items()
    return sum(count for (_, state), count in counts if state not in UNCOUNTED_STATES)


def _credential_name(caller: Caller) -> str:
    """Return the name under which the calls of a credential are counted."""
    return f"{caller.tenant}/{caller.admission.credential if caller.admission else ''}"


def _most(caller: Caller) -> int | None:
    return caller.admission.policy.memories_max if caller.admission else None


def _full(message: str) -> LimitExceededError:
    return LimitExceededError(
        message,
        code="quota_exceeded",
        hint="Forget what is not needed any more, or ask who runs the server for more.",
    )
