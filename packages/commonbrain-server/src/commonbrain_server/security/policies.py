"""The policy of a caller's tenant, without a query for each call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.limits import ACCESS_CACHE_S
from commonbrain.model.scope import NO_POLICY, Caller, Policy
from commonbrain.model.values import dataclass, field

if TYPE_CHECKING:
    from commonbrain.clock import Clock
    from commonbrain.storage.store import Store

_FRESH: Final = timedelta(seconds=ACCESS_CACHE_S)
_TENANTS_MAX: Final = 1000
"""Policies that one process caches; a process of local callers has one."""


@dataclass(frozen=True, slots=True)
class TenantPolicies:
    """Policies by tenant; those of local callers are cached for `ACCESS_CACHE_S` seconds."""

    store: Store
    clock: Clock
    _cache: dict[str, tuple[Policy, datetime]] = field(
        default_factory=dict[str, tuple[Policy, datetime]]
    )

    def of(self, caller: Caller) -> Policy:
        """Return the policy of the caller's tenant.

        Raises:
            UnavailableError: the store did not answer.

        """
        if caller.admission is not None:
            return caller.admission.policy
        now = self.clock.now()
        policy, read_at = self._cache.get(caller.tenant, (NO_POLICY, None))
        if read_at is not None and read_at <= now < read_at + _FRESH:
            return policy
        with self.store.snapshot(caller.tenant) as tx:
            tenant = tx.credentials.tenant()
        policy = tenant.policy if tenant else NO_POLICY
        if len(self._cache) >= _TENANTS_MAX:
            self._cache.clear()
        self._cache[caller.tenant] = (policy, now)
        return policy

    def forget(self, tenant: str) -> None:
        """Read the policy of a tenant again before its next use."""
        self._cache.pop(tenant, None)
