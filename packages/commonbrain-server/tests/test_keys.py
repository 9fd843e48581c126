"""API keys: who is admitted, who is not, and that neither words nor work distinguish wrong keys."""

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.security.api_keys import ApiKeyAuthenticator
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.key_texts import KeyText
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.security.passwords import Argon2PasswordHasher
from commonbrain_server.tenants import AgentRequest, NewKey, admin_of, tenants_of
from password_hashers import CACHED_QUERIES_MAX, HERE, CountingPasswordHasher, altered, refusal

from commonbrain.client import Brain
from commonbrain.model.errors import (
    AuthenticationError,
    InvalidInputError,
    LimitExceededError,
    RejectedError,
)
from commonbrain.model.limits import WRONG_CREDENTIALS_PER_MINUTE
from commonbrain.model.scope import Role, Trust
from commonbrain.testing.builders import FakeClock


@pytest.mark.requirement("ST-03")
def test_caller_with_a_key_claims_no_scope_or_trust_beyond_its_own(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator
) -> None:
    bob = Brain(brain.services, access.admit(str(new().text), address=HERE))

    with pytest.raises(RejectedError) as scope:
        bob.remember("The kettle is blue.", kind="fact", scope="global")
    with pytest.raises(RejectedError) as trust:
        bob.remember("The kettle is blue.", kind="fact", trust="trusted_tool")
    assert (scope.value.code, trust.value.code) == ("scope_denied", "trust_override_denied")


@pytest.mark.requirement("ST-01")
@pytest.mark.requirement("ST-14")
def test_key_determines_tenant_agent_role_and_trust(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator
) -> None:
    admin_of(brain).set_agent(
        "bob",
        AgentRequest(
            role=Role.READER,
            trust_default=Trust.UNTRUSTED_WEB,
            trust_ceiling=Trust.UNTRUSTED_WEB,
        ),
    )
    key = new()

    caller = access.admit(str(key.text), address=HERE)

    assert (caller.tenant, caller.agent, caller.role) == ("default", "bob", Role.READER)
    assert caller.trust_default is caller.trust_ceiling is Trust.UNTRUSTED_WEB
    assert caller.admission is not None
    assert caller.admission.credential == key.key.prefix


def test_caller_without_a_credential_gets_missing_credential(access: Authenticator) -> None:
    assert refusal(access, None).code == refusal(access, "").code == "missing_credential"


def test_wrong_keys_of_every_sort_get_the_same_error(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    good, over, revoked, disabled = new(), new(days=1), new(), new("eve")
    admin_of(brain).revoke_key(revoked.key.prefix)
    admin_of(brain).set_agent("eve", AgentRequest(is_disabled=True))
    clock.move(timedelta(days=1))
    text = good.text
    wrong = [
        altered(good),
        KeyText(tenant=text.tenant, prefix="ffffffff", secret=text.secret),
        KeyText(tenant="nobody", prefix=text.prefix, secret=text.secret),
        over.text,
        revoked.text,
        disabled.text,
        f"{text} ",
        str(text).upper(),
        "cb_",
        "a.b.c",
        "nonsense",
    ]

    errors = [refusal(access, one) for one in wrong]

    assert {type(error) for error in errors} == {AuthenticationError}
    assert len({(error.code, str(error)) for error in errors}) == 1
    assert access.admit(str(text), address=HERE).agent == "bob"


def test_unknown_key_is_hashed_like_a_known_one(
    new: Callable[..., NewKey],
    counted: ApiKeyAuthenticator,
    password_hasher: CountingPasswordHasher,
) -> None:
    key = new()
    for wrong in (
        altered(key),
        KeyText(tenant="default", prefix="ffffffff", secret="0" * 48),
        KeyText(tenant="nobody", prefix="ffffffff", secret="0" * 48),
    ):
        refusal(counted, wrong)

    assert password_hasher.verified == [True, False, False]


def test_password_hasher_verifies_argon2id_hashes_and_missing_ones() -> None:
    password_hasher = Argon2PasswordHasher()
    hashed = password_hasher.hash("a" * 48)

    assert password_hasher.verify(hashed, secret="a" * 48)
    assert not password_hasher.verify(hashed, secret="b" * 48)
    assert not password_hasher.verify(None, secret="0" * 48)
    assert not password_hasher.verify("no hashed", secret="a" * 48)
    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.requirement("ST-13")
def test_rotated_key_is_valid_together_with_the_new_one_for_its_grace(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    old = new(label="laptop", scopes=(KeyScope.READ,), networks=("192.0.2.0/24",))
    fresh = admin_of(brain).rotate_key(old.key.prefix, minutes=10)

    assert fresh.key.label == "laptop"
    assert fresh.key.scopes == (KeyScope.READ,)
    assert fresh.key.networks == ("192.0.2.0/24",)
    for key in (old, fresh):
        assert access.admit(str(key.text), address=HERE).agent == "bob"
    clock.move(timedelta(minutes=10))
    assert refusal(access, old.text).code == "invalid_credential"
    assert access.admit(str(fresh.text), address=HERE).agent == "bob"


@pytest.mark.requirement("ST-13")
def test_key_with_an_allow_list_is_admitted_from_its_networks_only(
    new: Callable[..., NewKey], access: Authenticator, subtests: pytest.Subtests
) -> None:
    key = new(networks=("192.0.2.0/24", "2001:db8::/32"))

    for address in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1"):
        with subtests.test(address=address):
            assert access.admit(str(key.text), address=address).agent == "bob"
    for address in ("198.51.100.1", "2001:db9::1", "not an address", None):
        with subtests.test(address=address):
            assert refusal(access, key.text, address).code == "scope_denied"


def test_allow_list_contains_networks_only(new: Callable[..., NewKey]) -> None:
    for wrong in (("somewhere",), ("192.0.2.7/24",), tuple("192.0.2.7" for _ in range(51))):
        with pytest.raises(InvalidInputError):
            new(networks=wrong)


@pytest.mark.requirement("ST-13")
def test_scopes_of_a_key_narrow_a_role_and_never_widen_it(
    new: Callable[..., NewKey], access: Authenticator, subtests: pytest.Subtests
) -> None:
    cases = (
        (Role.ADMIN, (), Role.ADMIN),
        (Role.ADMIN, (KeyScope.READ,), Role.READER),
        (Role.ADMIN, (KeyScope.READ, KeyScope.WRITE), Role.WRITER),
        (Role.WRITER, (KeyScope.ADMIN,), Role.WRITER),
        (Role.READER, (KeyScope.WRITE,), Role.READER),
    )
    for number, (role, scopes, left) in enumerate(cases):
        with subtests.test(role=role, scopes=scopes):
            # The role is that of a new agent.
            key = new(f"agent{number}", role=role, scopes=scopes)

            assert access.admit(str(key.text), address=HERE).role is left


def test_suspended_tenant_denies_valid_keys_by_name_and_wrong_ones_as_ever(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator, clock: FakeClock
) -> None:
    key = new()
    tenants_of(brain).suspend("default", is_suspended=True)

    assert refusal(access, key.text).code == "tenant_suspended"
    assert refusal(access, altered(key)).code == "invalid_credential"
    tenants_of(brain).suspend("default", is_suspended=False)
    clock.move(CACHED_QUERIES_MAX)
    assert access.admit(str(key.text), address=HERE).agent == "bob"


def test_guessing_from_one_address_is_limited_before_the_hash(
    new: Callable[..., NewKey],
    counted: ApiKeyAuthenticator,
    password_hasher: CountingPasswordHasher,
) -> None:
    key, late = new(), new()
    counted.admit(str(key.text), address=HERE)
    for _ in range(WRONG_CREDENTIALS_PER_MINUTE):
        refusal(counted, "cb_nonsense")
    before = len(password_hasher.verified)

    error = refusal(counted, late.text)

    assert isinstance(error, LimitExceededError)
    assert error.retry_after_s is not None
    assert 0 < error.retry_after_s <= 60
    assert len(password_hasher.verified) == before
    assert counted.admit(str(key.text), address=HERE).agent == "bob"
    assert counted.admit(str(late.text), address="198.51.100.9").agent == "bob"


def test_secret_of_a_key_is_in_no_error_log_store_or_representation(
    brain: Brain,
    new: Callable[..., NewKey],
    access: Authenticator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        key = new()
        access.admit(str(key.text), address=HERE)
        errors = [refusal(access, altered(key)), refusal(access, f"{key.text}x")]
    guard_of(brain.services).refusals.close()
    shown = repr((admin_of(brain).keys(), admin_of(brain).noted(), access))

    secret = key.text.secret
    assert secret not in caplog.text
    assert all(secret not in str(error) for error in errors)
    assert secret not in shown
    assert secret not in repr(key)
    with open(brain.services.store.location, "rb") as file:  # noqa: PTH123 a path as text
        assert secret.encode() not in file.read()


def test_admin_by_a_key_governs_only_its_own_tenant(
    brain: Brain, new: Callable[..., NewKey], access: Authenticator
) -> None:
    admin = access.admit(str(new(role=Role.ADMIN).text), address=HERE)
    writer = access.admit(str(new("eve").text), address=HERE)

    with pytest.raises(RejectedError):
        tenants_of(Brain(brain.services, admin)).list()
    with pytest.raises(RejectedError):
        admin_of(Brain(brain.services, writer)).keys()
    assert admin_of(Brain(brain.services, admin)).keys()
