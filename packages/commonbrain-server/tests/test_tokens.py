"""Tokens of a real issuer: which are accepted, and how often its keys are fetched."""

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import jwt
import pytest
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.tenants import AgentRequest, admin_of, tenants_of
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.limits import ACCESS_CACHE_S
from commonbrain.model.scope import Role, Trust
from commonbrain.testing.builders import FakeClock
from tests.guarded import an_access
from tests.security.issuing import AUDIENCE, NAME, Issuing, an_issuer

Mint = Callable[..., str]


@pytest.fixture(scope="module")
def issuing() -> Iterator[Issuing]:
    with an_issuer() as issuing:
        for kid, algorithm in (("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")):
            issuing.add(kid, algorithm)
        yield issuing


@pytest.fixture
def access(brain: Brain, issuing: Issuing) -> Authenticator:
    return an_access(brain, issuing.issuer())


def claims(**more: object) -> dict[str, Any]:
    plain = {
        "iss": NAME,
        "aud": AUDIENCE,
        "sub": "bob",
        "tenant": "default",
        "role": "writer",
        # PyJWT goes by the wall clock; an hour is far from any bound.
        "exp": int(time.time()) + 3600,
    }
    return {name: value for name, value in (plain | more).items() if value is not None}


def refusal(access: Authenticator, token: str) -> CommonbrainError:
    with pytest.raises(CommonbrainError) as error:
        access.admit(token, address=None)
    return error.value


@pytest.mark.requirement("ST-14")
def test_token_determines_tenant_agent_and_role(
    access: Authenticator, issuing: Issuing, subtests: pytest.Subtests
) -> None:
    for kid in ("rsa", "ec", "ed"):
        with subtests.test(key=kid):
            caller = access.admit(issuing.token(kid, **claims()), address=None)

            assert (caller.tenant, caller.agent, caller.role) == ("default", "bob", Role.WRITER)
            assert caller.trust_ceiling is Trust.USER_CLAIM


WRONG_CLAIMS: list[dict[str, Any]] = [
    {"aud": "https://other.test"},
    {"aud": None},
    {"iss": "https://other.test"},
    {"iss": None},
    {"exp": 1_000_000_000},
    {"exp": None},
    {"nbf": 4_000_000_000},
    {"sub": None},
    {"sub": ""},
    {"sub": "all"},
    {"sub": "a\nb"},
    {"sub": 7},
    {"tenant": None},
    {"tenant": "nobody"},
    {"tenant": "../default"},
    {"tenant": ["default"]},
    {"role": "owner"},
    {"role": ["admin", "reader"]},
    {"role": ["owner"]},
    {"role": ""},
]


def test_token_with_wrong_claims_is_not_valid(
    access: Authenticator, issuing: Issuing, subtests: pytest.Subtests
) -> None:
    for wrong in WRONG_CLAIMS:
        with subtests.test(wrong=wrong):
            error = refusal(access, issuing.token("ec", **claims(**wrong)))

            assert type(error) is AuthenticationError
            assert error.code == "invalid_credential"


def test_missing_shared_or_foreign_signature_is_not_valid(
    access: Authenticator, issuing: Issuing
) -> None:
    public = issuing.keys["rsa"][1].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    good = issuing.token("rsa", **claims())
    head, body, signature = good.split(".")

    def headed(**header: str) -> str:
        raw = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
        return f"{raw}.{body}"

    # PyJWT refuses to sign so itself, as the attack needs.
    by_hand = headed(alg="HS256", kid="rsa", typ="JWT")
    shared = base64.urlsafe_b64encode(hmac.digest(pem, by_hand.encode(), "sha256")).rstrip(b"=")
    for token in (
        jwt.encode(claims(), "", algorithm="none", headers={"kid": "rsa"}),
        f"{headed(alg='none', kid='rsa')}.",
        f"{by_hand}.{shared.decode()}",
        f"{headed(alg='RS256', kid='ec')}.{signature}",
        f"{headed(alg='RS512', kid='rsa')}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}",
        good + "x" * 20_000,
    ):
        assert refusal(access, token).code == "invalid_credential"


def test_shared_secret_among_the_keys_of_the_issuer_signs_no_token(brain: Brain) -> None:
    with an_issuer() as issuing:
        issuing.add("ec", "ES256")
        secret = base64.urlsafe_b64encode(b"0" * 32).rstrip(b"=").decode()
        issuing.shown.append({"kty": "oct", "k": secret, "kid": "oct", "alg": "HS256"})
        access = an_access(brain, issuing.issuer(algorithms=("HS256", "ES256")))
        token = jwt.encode(claims(), b"0" * 32, algorithm="HS256", headers={"kid": "oct"})

        assert refusal(access, token).code == "invalid_credential"


def test_new_key_is_fetched_once_and_unknown_ones_cause_no_flood(brain: Brain) -> None:
    with an_issuer() as issuing, an_issuer() as stranger:
        issuing.add("old", "ES256")
        stranger.add("new", "ES256")
        access = an_access(brain, issuing.issuer())
        for _ in range(20):
            access.admit(issuing.token("old", **claims()), address=None)
        assert issuing.fetched == 1

        for _ in range(20):
            assert refusal(access, stranger.token("new", **claims())).code == "invalid_credential"
        assert issuing.fetched <= 2


def test_issuer_that_is_down_is_reported_and_not_requested_by_every_call(
    brain: Brain, clock: FakeClock
) -> None:
    with an_issuer() as issuing:
        issuing.add("ec", "ES256")
        issuing.is_down = True
        access = an_access(brain, issuing.issuer(timeout_s=5))
        token = issuing.token("ec", **claims())
        errors = [refusal(access, token) for _ in range(10)]

        assert {type(error) for error in errors} == {UnavailableError}
        assert issuing.fetched == 1
        issuing.is_down = False
        clock.move(timedelta(seconds=5))
        assert access.admit(token, address=None).agent == "bob"


def test_caller_by_a_token_has_the_lower_role_and_the_trust_of_its_agent(
    brain: Brain, access: Authenticator, issuing: Issuing, clock: FakeClock
) -> None:
    def admitted(**more: object) -> Role:
        clock.move(timedelta(seconds=ACCESS_CACHE_S))
        return access.admit(issuing.token("ec", **claims(**more)), address=None).role

    assert admitted(role=None) is Role.READER
    admin_of(brain).set_agent(
        "bob", AgentRequest(role=Role.WRITER, trust_ceiling=Trust.TRUSTED_TOOL)
    )
    assert admitted(role=None) is Role.WRITER
    assert admitted(role="admin") is Role.WRITER
    assert admitted(role="reader") is Role.READER
    token = issuing.token("ec", **claims())
    assert access.admit(token, address=None).trust_ceiling is Trust.TRUSTED_TOOL
    admin_of(brain).set_agent("bob", AgentRequest(is_disabled=True))
    clock.move(timedelta(seconds=ACCESS_CACHE_S))
    assert refusal(access, token).code == "invalid_credential"


def test_agent_known_by_tokens_alone_is_still_a_reader_when_enabled_again(
    brain: Brain, access: Authenticator, issuing: Issuing
) -> None:
    for is_disabled in (True, False):
        admin_of(brain).set_agent("bob", AgentRequest(is_disabled=is_disabled))
    assert access.admit(issuing.token("ec", **claims(role=None)), address=None).role is Role.READER


def test_names_of_claims_are_configurable(brain: Brain, issuing: Issuing) -> None:
    issuer = issuing.issuer(
        tenant_claim="https://brain.test/tenant", agent_claim="client_id", role_claim=None
    )
    given_claims = claims(sub=None, tenant=None, client_id="ci") | {
        "https://brain.test/tenant": "default"
    }

    caller = an_access(brain, issuer).admit(issuing.token("ed", **given_claims), address=None)

    assert (caller.agent, caller.role) == ("ci", Role.READER)


def test_suspended_tenant_denies_tokens(
    brain: Brain, access: Authenticator, issuing: Issuing
) -> None:
    tenants_of(brain).suspend("default", is_suspended=True)

    error = refusal(access, issuing.token("ec", **claims()))

    assert isinstance(error, RejectedError)
    assert error.code == "tenant_suspended"


def test_token_without_a_configured_issuer_is_not_valid(brain: Brain, issuing: Issuing) -> None:
    assert refusal(an_access(brain), issuing.token("ec", **claims())).code == "invalid_credential"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=st.one_of(st.text(max_size=300), st.from_regex(r"[\w-]+\.[\w-]+\.[\w-]*")))
def test_nonsense_is_no_valid_token_and_raises_no_other_error(
    access: Authenticator, token: str
) -> None:
    assert refusal(access, token).code in {"invalid_credential", "missing_credential"}
