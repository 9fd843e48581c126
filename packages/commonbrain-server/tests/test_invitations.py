"""Invitations: a link that gives a colleague a key of their own, once, and opens nothing else."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.tenants import AdministerTenant, NewKey, admin_of
from password_hashers import HERE, altered

from commonbrain.client import Brain
from commonbrain.model.errors import AuthenticationError, InvalidInputError, LimitExceededError
from commonbrain.model.limits import WRONG_CREDENTIALS_PER_MINUTE
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock

Invite = Callable[[], NewKey]
Join = Callable[[NewKey], NewKey]


@pytest.fixture
def invite(new: Callable[..., NewKey]) -> Invite:
    return lambda: new("ann", Role.WRITER, scopes=(KeyScope.JOIN,), days=7, label="laptop")


@pytest.fixture
def join(brain: Brain, access: Authenticator) -> Join:
    def exchange(invitation: NewKey) -> NewKey:
        caller = access.invited(str(invitation.text), address=HERE)
        return AdministerTenant(brain.services, caller).accept_invitation()

    return exchange


@pytest.mark.requirement("ST-21")
def test_invitation_is_exchanged_for_a_key_with_all_of_the_agents_role(
    access: Authenticator, invite: Invite, join: Join
) -> None:
    key = join(invite())

    caller = access.admit(str(key.text), address=HERE)
    assert (caller.agent, caller.role, key.key.label) == ("ann", Role.WRITER, "laptop")
    assert key.key.expires_at is None


@pytest.mark.requirement("ST-21")
def test_invitation_makes_no_call(access: Authenticator, invite: Invite) -> None:
    credential = str(invite().text)

    for _ in range(2):
        with pytest.raises(AuthenticationError, match="makes no calls"):
            access.admit(credential, address=HERE)
        assert access.known(credential, address=HERE) is None


@pytest.mark.requirement("ST-21")
def test_invitation_works_once_even_for_two_at_the_same_time(
    brain: Brain, access: Authenticator, invite: Invite
) -> None:
    invitation = invite()
    callers = [access.invited(str(invitation.text), address=HERE) for _ in range(4)]

    def accept(number: int) -> NewKey | None:
        try:
            return AdministerTenant(brain.services, callers[number]).accept_invitation()
        except AuthenticationError:
            return None

    with ThreadPoolExecutor(4) as threads:
        keys = [one for one in threads.map(accept, range(4)) if one is not None]

    assert len(keys) == 1
    with pytest.raises(AuthenticationError):
        access.invited(str(invitation.text), address=HERE)


@pytest.mark.requirement("ST-21")
def test_invitation_with_another_role_than_its_agent_has_is_refused(
    new: Callable[..., NewKey], invite: Invite
) -> None:
    new("ann", Role.ADMIN)

    with pytest.raises(InvalidInputError, match="exists, as admin"):
        invite()


@pytest.mark.requirement("ST-21")
def test_rotated_invitation_is_over_and_the_new_one_is_good(
    brain: Brain, invite: Invite, join: Join
) -> None:
    old = invite()
    new_ = admin_of(brain).rotate_key(old.key.prefix)

    with pytest.raises(AuthenticationError):
        join(old)
    assert join(new_).key.agent == "ann"


@pytest.mark.requirement("ST-21")
def test_used_invitation_is_noted_and_its_replays_are_slowed(
    brain: Brain, access: Authenticator, invite: Invite, join: Join
) -> None:
    invitation = invite()
    join(invitation)

    for _ in range(WRONG_CREDENTIALS_PER_MINUTE):
        with pytest.raises(AuthenticationError):
            access.invited(str(invitation.text), address=HERE)
    with pytest.raises(LimitExceededError):
        access.invited(str(invitation.text), address=HERE)
    guard_of(brain.services).refusals.close()
    noted = [one for one in admin_of(brain).noted().rows if one.code == "invalid_credential"]
    assert {one.agent for one in noted} == {"ann"}


@pytest.mark.requirement("ST-21")
def test_scope_of_an_invitation_goes_with_no_other(new: Callable[..., NewKey]) -> None:
    with pytest.raises(InvalidInputError, match="join goes with no other"):
        new("bo", Role.WRITER, scopes=(KeyScope.JOIN, KeyScope.READ))
    assert new("bo", Role.WRITER, scopes=(KeyScope.JOIN,)).key.expires_at is not None


@pytest.mark.requirement("ST-21")
def test_only_a_valid_invitation_is_exchanged(
    brain: Brain,
    clock: FakeClock,
    new: Callable[..., NewKey],
    invite: Invite,
    join: Join,
) -> None:
    over, revoked, key = invite(), invite(), new("eve")
    admin_of(brain).revoke_key(revoked.key.prefix)
    clock.move(timedelta(days=7))
    wrong = NewKey(key=key.key, text=altered(invite()))

    for one in (over, revoked, key, wrong):
        with pytest.raises(AuthenticationError):
            join(one)
