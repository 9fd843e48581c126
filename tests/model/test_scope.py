import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import RejectedError
from commonbrain.model.scope import Caller, Role, Scope, Trust, check_may_write, granted, is_visible
from commonbrain.testing.builders import a_memory

TRUSTS = st.sampled_from(Trust)


@given(st.sampled_from(Scope), st.sampled_from("ab"), st.sampled_from("ab"), st.sampled_from(Role))
def test_agent_sees_all_but_private_memories_of_others(
    scope: Scope, author: str, reader: str, role: Role
) -> None:
    memory = a_memory(1, "x", scope=scope, agent=author)
    can_see = is_visible(Caller(agent=reader, role=role), memory)
    assert can_see == (scope is not Scope.PRIVATE or author == reader)


def test_admin_does_not_see_private_memories_of_another_agent() -> None:
    private = a_memory(1, "x", scope=Scope.PRIVATE, agent="ann")
    assert not is_visible(Caller(agent="root", role=Role.ADMIN), private)


def test_reader_cannot_write_to_any_scope(subtests: pytest.Subtests) -> None:
    for scope in Scope:
        with subtests.test(scope=scope):
            with pytest.raises(RejectedError) as refusal:
                check_may_write(Caller(agent="ann", role=Role.READER), scope)
            assert refusal.value.code == "insufficient_role"


def test_only_an_admin_writes_to_the_global_scope() -> None:
    check_may_write(Caller(agent="root", role=Role.ADMIN), Scope.GLOBAL)
    with pytest.raises(RejectedError) as refusal:
        check_may_write(Caller(agent="ann", role=Role.WRITER), Scope.GLOBAL)
    assert refusal.value.code == "scope_denied"


def test_writers_and_admins_write_for_themselves_and_their_team(subtests: pytest.Subtests) -> None:
    for role in [Role.WRITER, Role.ADMIN]:
        for scope in [Scope.PRIVATE, Scope.TEAM]:
            with subtests.test(scope=scope, role=role):
                check_may_write(Caller(agent="ann", role=role), scope)


@pytest.mark.requirement("WP-26")
@given(st.none() | TRUSTS, TRUSTS, TRUSTS)
def test_trust_may_be_lowered_and_never_raised_above_the_ceiling(
    claimed: Trust | None, default: Trust, ceiling: Trust
) -> None:
    if claimed is None:
        weight = granted(None, default=default, ceiling=ceiling).weight
        assert weight == min(default.weight, ceiling.weight)
        return
    if claimed.weight <= ceiling.weight:
        assert granted(claimed, default=default, ceiling=ceiling) is claimed
        return
    with pytest.raises(RejectedError) as refusal:
        granted(claimed, default=default, ceiling=ceiling)
    assert refusal.value.code == "trust_override_denied"


def test_trust_levels_have_the_documented_weights() -> None:
    assert [trust.weight for trust in Trust] == [1.0, 0.7, 0.35]
