"""Keys that a process has cached: for how long, and how often store and hash are used."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.security.api_keys import ApiKeyAuthenticator
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.tenants import AgentRequest, NewKey, admin_of
from password_hashers import CACHED_QUERIES_MAX, HERE, CountingPasswordHasher, altered, refusal

from commonbrain.client import Brain
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import ACCESS_CACHE_S, USES_APART_S
from commonbrain.model.scope import Role
from commonbrain.storage.interface import AccessEntry
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock


def test_secret_is_hashed_once_and_the_key_is_read_again_later(
    new: Callable[..., NewKey],
    counted: ApiKeyAuthenticator,
    password_hasher: CountingPasswordHasher,
    clock: FakeClock,
) -> None:
    key = new()
    for _ in range(5):
        counted.admit(str(key.text), address=HERE)
        clock.move(CACHED_QUERIES_MAX)

    assert len(password_hasher.verified) == 1


@pytest.mark.requirement("ST-13")
def test_revoked_key_and_changed_agent_apply_after_the_cache_time(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    key, other = new(), new("eve")
    access.admit(str(key.text), address=HERE)
    access.admit(str(other.text), address=HERE)
    admin_of(brain).revoke_key(key.key.prefix)
    admin_of(brain).set_agent("eve", AgentRequest(role=Role.ADMIN))

    clock.move(CACHED_QUERIES_MAX)

    assert refusal(access, key.text).code == "invalid_credential"
    assert access.admit(str(other.text), address=HERE).role is Role.ADMIN


@pytest.mark.requirement("ST-13")
def test_cached_key_expires_at_its_time(
    new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    key = new(days=5 / 86_400)
    access.admit(str(key.text), address=HERE)

    clock.move(timedelta(seconds=5))

    assert refusal(access, key.text).code == "invalid_credential"


def test_last_use_of_a_key_is_written_in_the_background(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    key = new()
    access.admit(str(key.text), address=HERE)
    guard_of(brain.services).refusals.close()

    assert admin_of(brain).keys()[0].last_used_at == clock.now()


def test_admitted_key_is_known_until_the_cache_expires(
    new: Callable[..., NewKey], counted: ApiKeyAuthenticator, clock: FakeClock
) -> None:
    key = new(networks=("192.0.2.0/24",))
    text = str(key.text)
    assert counted.known(text, address=HERE) is None
    caller = counted.admit(text, address=HERE)

    assert counted.known(text, address=HERE) == caller
    assert counted.known(text, address="198.51.100.9") is None
    assert counted.known(str(altered(key)), address=HERE) is None
    assert counted.known(None, address=HERE) is None
    clock.move(CACHED_QUERIES_MAX)
    assert counted.known(text, address=HERE) is None


def test_one_read_of_the_store_refreshes_all_known_keys_of_a_tenant(
    brain: Brain, new: Callable[..., NewKey], counted: ApiKeyAuthenticator, clock: FakeClock
) -> None:
    one, other, sealed_anew = new(), new(), new()
    for key in (one, other, sealed_anew):
        counted.admit(str(key.text), address=HERE)
    admin_of(brain).revoke_key(other.key.prefix)
    clock.move(CACHED_QUERIES_MAX)
    counted.admit(str(one.text), address=HERE)

    # No time passes: it is known from the look that the first one's call led to.
    assert refusal(counted, other.text).code == "invalid_credential"
    assert counted.admit(str(sealed_anew.text), address=HERE).agent == "bob"


def test_use_of_a_key_is_recorded_every_five_minutes_at_most(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    key = new()
    first = clock.now()
    for _ in range(5):
        access.admit(str(key.text), address=HERE)
        clock.move(timedelta(seconds=USES_APART_S / 5))
    guard_of(brain.services).refusals.close()

    assert admin_of(brain).keys()[0].last_used_at == first


@dataclass
class SlowStore:
    """The real store, whose reads take as long as keys are cached."""

    real: Store
    clock: FakeClock

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[Any]:
        with self.real.snapshot(tenant) as tx:
            yield tx
        self.clock.move(CACHED_QUERIES_MAX)

    def begin(self, _tenant: str) -> Any:  # noqa: ANN401 it gives nothing
        raise UnavailableError("The store is down.", code="store_down")


def test_age_of_a_cached_key_counts_from_before_it_was_read(
    brain: Brain, new: Callable[..., NewKey], counted: ApiKeyAuthenticator, clock: FakeClock
) -> None:
    text = str(new().text)
    slow: Any = SlowStore(brain.services.store, clock)
    access = ApiKeyAuthenticator(
        store=slow,
        password_hasher=counted.password_hasher,
        clock=clock,
        rates=counted.rates,
        refusals=counted.refusals,
    )
    access.admit(text, address=HERE)

    assert access.known(text, address=HERE) is None


@dataclass
class LosingRefusals:
    """Loses each use that it is given."""

    uses: list[str] = field(default_factory=list[str])

    def note(self, tenant: str, entry: AccessEntry) -> None:
        """Ignore a denial."""

    def used(self, _tenant: str, prefix: str, *, lost: Callable[[], None]) -> None:
        self.uses.append(prefix)
        lost()

    def close(self) -> None:
        """Do nothing: nothing is pending."""


def test_lost_use_of_a_key_is_recorded_again_but_not_by_every_call(
    new: Callable[..., NewKey], counted: ApiKeyAuthenticator, clock: FakeClock
) -> None:
    key, losing = new(), LosingRefusals()
    access = ApiKeyAuthenticator(
        store=counted.store,
        password_hasher=counted.password_hasher,
        clock=clock,
        rates=counted.rates,
        refusals=losing,  # type: ignore[arg-type]
    )
    for _ in range(3):
        access.admit(str(key.text), address=HERE)
    clock.move(timedelta(seconds=ACCESS_CACHE_S))
    access.admit(str(key.text), address=HERE)

    assert losing.uses == [key.key.prefix] * 2


def test_use_of_a_key_that_cannot_be_written_is_reported_as_lost(
    brain: Brain, clock: FakeClock
) -> None:
    down: Any = SlowStore(brain.services.store, clock)
    refusals, lost = AccessDenials(store=down, clock=clock), list[str]()
    refusals.used("default", "0123abcd", lost=lambda: lost.append("lost"))
    refusals.close()

    assert lost == ["lost"]


def test_use_of_a_key_that_was_written_is_not_reported_as_lost(
    brain: Brain, new: Callable[..., NewKey], clock: FakeClock
) -> None:
    key, lost = new(), list[str]()
    guard_of(brain.services).refusals.used(
        "default", key.key.prefix, lost=lambda: lost.append("lost")
    )
    guard_of(brain.services).refusals.close()

    assert not lost
    assert admin_of(brain).keys()[0].last_used_at == clock.now()
