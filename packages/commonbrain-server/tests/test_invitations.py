"""Invitations: a link that gives a colleague a key of their own, once, and opens nothing else."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO

import pytest
from commonbrain_server.guard import guard_of
from commonbrain_server.operations.admin import ADMIN, AdminRequest
from commonbrain_server.security.authentication import Authenticator
from commonbrain_server.security.keys import KeyScope
from commonbrain_server.tenants import AdministerTenant, KeyRequest, NewKey, admin_of
from password_hashers import HERE, altered
from rich.console import Console

from commonbrain.cli.terminal import print_reply
from commonbrain.client import Brain
from commonbrain.model.errors import AuthenticationError, InvalidInputError, LimitExceededError
from commonbrain.model.limits import WRONG_CREDENTIALS_PER_MINUTE
from commonbrain.model.scope import Caller, Role
from commonbrain.testing.builders import FakeClock
from tests.guarded import an_access
from tests.security.engines import both_engines

FIRST = KeyRequest(agent="ada", role=Role.ADMIN, scopes=(KeyScope.JOIN,), days=1)

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


@pytest.mark.parametrize("width", [80, 100])
def test_terminal_shows_the_command_with_the_link_as_one_line_to_copy(
    brain: Brain, width: int
) -> None:
    request = AdminRequest(op="key_create", agent="ann", role=Role.WRITER, scopes=[KeyScope.JOIN])
    reply = ADMIN.handle(brain, request)
    shown = StringIO()

    print_reply(ADMIN, reply, console=Console(file=shown, width=width, force_terminal=True))

    assert f"brain connect CLIENT --url '{reply.secret}'" in shown.getvalue().splitlines()


@pytest.mark.requirement("ST-21")
def test_invitation_makes_no_call(access: Authenticator, invite: Invite) -> None:
    credential = str(invite().text)

    for _ in range(2):
        with pytest.raises(AuthenticationError, match="makes no calls"):
            access.admit(credential, address=HERE)
        assert access.known(credential, address=HERE) is None


@both_engines
@pytest.mark.requirement("ST-21")
def test_invitation_works_once_even_for_several_at_the_same_time(owner: Brain) -> None:
    access = an_access(owner)
    request = KeyRequest(agent="ann", role=Role.WRITER, scopes=(KeyScope.JOIN,))
    invitation = str(admin_of(owner).create_key(request).text)
    callers = [access.invited(invitation, address=HERE) for _ in range(4)]

    def accept(caller: Caller) -> NewKey | str:
        try:
            return AdministerTenant(owner.services, caller).accept_invitation()
        except AuthenticationError as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        ends = [*threads.map(accept, callers)]

    assert sum(isinstance(one, NewKey) for one in ends) == 1
    with pytest.raises(AuthenticationError) as used:
        access.invited(invitation, address=HERE)
    assert {one for one in ends if isinstance(one, str)} == {str(used.value)}


@both_engines
@pytest.mark.requirement("ST-22")
def test_first_key_is_created_once_even_by_several_at_the_same_time(owner: Brain) -> None:
    def create(_number: int) -> NewKey | None:
        return admin_of(owner).create_first_key(FIRST)

    with ThreadPoolExecutor(4) as threads:
        created = [one for one in threads.map(create, range(4)) if one]

    assert len(created) == 1
    keys = admin_of(owner).keys()
    assert [key.prefix for key in keys] == [created[0].key.prefix]


@pytest.mark.requirement("ST-22")
def test_first_key_is_not_created_again_unless_only_its_invitation_ended(
    brain: Brain, clock: FakeClock, join: Join
) -> None:
    admin = admin_of(brain)
    assert admin.create_first_key(FIRST)

    clock.move(timedelta(days=1))
    second = admin.create_first_key(FIRST)
    assert second
    key = join(second)
    admin.revoke_key(key.key.prefix)

    assert admin.create_first_key(FIRST) is None


@pytest.mark.requirement("ST-22")
def test_first_key_is_not_created_again_however_many_invitations_ended(
    brain: Brain, invite: Invite, join: Join
) -> None:
    admin = admin_of(brain)
    admin.revoke_key(join(invite()).key.prefix)
    for _ in range(3):
        admin.revoke_key(invite().key.prefix)

    assert admin.has_key()
    assert admin.create_first_key(FIRST) is None


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
