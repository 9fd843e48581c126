"""Tenants of a store and their policies, written as the commands of a server write them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from commonbrain.client import Brain
from commonbrain.model.scope import NO_POLICY

if TYPE_CHECKING:
    from commonbrain_server.tenants import PolicyChange


def add_tenant(brain: Brain, name: str) -> None:
    """Create a tenant in the store of a brain."""
    assert brain.services.store.make_tenant(name, at=brain.services.clock.now())


def set_policy(brain: Brain, **change: Unpack[PolicyChange]) -> None:
    """Replace the policy of a brain's tenant."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.credentials.set_policy(replace(NO_POLICY, **change))
