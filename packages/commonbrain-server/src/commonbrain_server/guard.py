"""Guards the services of a server: rates, quotas, policies, and the audits of denials and reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from commonbrain.config import Settings
from commonbrain.model.scope import Caller, Policy
from commonbrain.security.guard import SHOWN
from commonbrain.services import Services
from commonbrain.storage.interface import AccessEntry
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.security.policies import TenantPolicies
from commonbrain_server.security.quotas import Quotas, RateLimiter
from commonbrain_server.security.rate_limits import make_rates
from commonbrain_server.security.read_audit import audit, audited_class, record_copy

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

ViewT = TypeVar("ViewT")
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamGuard:
    """The rules of a store with several tenants."""

    services: Services
    """The services that it guards, as they are without it."""
    policies: TenantPolicies
    quotas: Quotas
    refusals: AccessDenials

    @property
    def rates(self) -> RateLimiter:
        """The counts of calls."""
        return self.quotas.rates

    def view_class(self, view: type[ViewT]) -> type[ViewT]:
        """Return a subclass of `Brain` that audits what it shows."""
        return audited_class(view)

    def policy(self, caller: Caller) -> Policy:
        """Return the policy of the caller's tenant."""
        return self.policies.of(caller)

    def policy_changed(self, tenant: str) -> None:
        """Read the policy of a tenant again before its next use."""
        self.policies.forget(tenant)

    def check_rate(self, caller: Caller) -> None:
        """Count a call of a credential and of its tenant."""
        self.quotas.check_rate(caller)

    def check_quota(self, caller: Caller) -> None:
        """Reject a tenant at its quota before processing its text."""
        self.quotas.check_quota(caller)

    def reserve(self, caller: Caller, tx: Transaction) -> None:
        """Count one more memory that is about to be stored."""
        self.quotas.reserve(caller, tx)

    def note_denial(self, tenant: str, entry: AccessEntry, *, wait_s: float) -> None:
        """Record a denial."""
        self.refusals.note(tenant, entry, wait_s=wait_s)

    def audit(self, caller: Caller, *, action: str, read: Callable[[], ReplyT]) -> ReplyT:
        """Run a call; append a line for each memory it shows, if reads are audited."""
        is_inside = SHOWN.get() is not None
        if is_inside or not self.policy(caller).are_reads_audited:
            return read()
        return audit(self.services, caller, action=action, read=read)

    def note_copy(self, caller: Caller, *, action: str, subject: str, memories: int) -> None:
        """Append one line for a file with too many memories to name, if reads are audited."""
        if self.policy(caller).are_reads_audited:
            record_copy(self.services, caller, action=action, subject=subject, memories=memories)

    def close(self) -> None:
        """Write what is pending."""
        self.refusals.close()


def guard_services(services: Services, settings: Settings | None = None) -> Services:
    """Return services that limit and audit their callers; guarded ones are returned as they are.

    Args:
        services: an open store.
        settings: limits, and the Redis that shares counts; by default those of the program.

    Raises:
        InvalidInputError: COMMONBRAIN_REDIS_URL is not valid.

    """
    if services.guard is not None:
        return services
    settings = settings or Settings.model_construct()
    redis_url = settings.redis_url.get_secret_value() if settings.redis_url else None
    store, clock = services.store, services.clock
    guard = TeamGuard(
        services=services,
        policies=TenantPolicies(store, clock),
        quotas=Quotas(
            store=store,
            clock=clock,
            rates=make_rates(redis_url),
            key_calls_per_minute=settings.key_calls_per_minute,
            tenant_calls_per_minute=settings.tenant_calls_per_minute,
        ),
        refusals=AccessDenials(store=store, clock=clock),
    )
    return replace(services, guard=guard)


def guard_of(services: Services) -> TeamGuard:
    """Return the guard of a server's services.

    Raises:
        TypeError: they are those of one person.

    """
    if not isinstance(services.guard, TeamGuard):
        raise TypeError("These services have no guard: guard_services() gives them one.")
    return services.guard
