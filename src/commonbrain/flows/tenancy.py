"""Tenants, as who owns the store sees them: listed, made, shut and opened."""

from dataclasses import dataclass, replace
from typing import Unpack

from commonbrain.domain.credentials import check_tenant_name
from commonbrain.domain.errors import Invalid, NotFound, Refused
from commonbrain.domain.policy import PolicyChange
from commonbrain.domain.scope import Caller
from commonbrain.flows.governing import Govern, Usage
from commonbrain.flows.house import House
from commonbrain.ports.credentials import AccessEntry, Tenant


@dataclass(frozen=True, slots=True)
class Tenants:
    """What is done across tenants; nobody who came through a networked door may."""

    house: House
    caller: Caller

    def list(self) -> list[Tenant]:
        """List all of them by name."""
        self._check()
        return [self.get(name) for name in self.house.store.tenants()]

    def make(self, name: str) -> Tenant:
        """Make one.

        Raises:
            Invalid: no tenant may be called so, or there is one already.

        """
        self._check()
        if not self.house.store.make_tenant(check_tenant_name(name), at=self.house.clock.now()):
            raise Invalid(f"There is a tenant {name} already.", hint="Take another name.")
        return self.get(name)

    def get(self, name: str) -> Tenant:
        """Give one.

        Raises:
            NotFound: there is none of that name.

        """
        self._check()
        with self.house.store.snapshot(check_tenant_name(name)) as tx:
            tenant = tx.credentials.tenant()
        if tenant is None:
            raise NotFound(f"There is no tenant {name}.", hint="brain tenant list tells them.")
        return tenant

    def usage(self, name: str) -> Usage:
        """Count what one uses."""
        return self._govern(self.get(name).name).usage()

    def suspend(self, name: str, *, is_suspended: bool) -> Tenant:
        """Shut the networked doors to one, or open them again; what it holds stays."""
        known = self.get(name)
        now = self.house.clock.now()
        at = (known.suspended_at or now) if is_suspended else None
        with self.house.store.begin(name) as tx:
            tx.credentials.suspend(at)
            tx.credentials.note(
                AccessEntry(
                    at=now,
                    action="suspend" if is_suspended else "resume",
                    agent=self.caller.agent,
                    subject=name,
                )
            )
        return replace(known, suspended_at=at)

    def policy(self, name: str, **change: Unpack[PolicyChange]) -> Tenant:
        """Give a tenant, whose policy is changed where something is to be another."""
        policy = self._govern(self.get(name).name).policy(**change)
        return replace(self.get(name), policy=policy)

    def _govern(self, tenant: str) -> Govern:
        return Govern(self.house, replace(self.caller, tenant=tenant))

    def _check(self) -> None:
        if self.caller.admission is not None:
            raise Refused(
                "Tenants are governed by who owns the store, at the machine it is on.",
                code="insufficient_role",
                hint="Use brain tenant there.",
            )
