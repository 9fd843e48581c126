from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.kinds import Kind
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

LONG = "The nightly build runs on two cores. " * 20


@pytest.mark.requirement("RT-01")
def test_get_returns_a_complete_memory(brain: Brain) -> None:
    id_ = stored(brain, LONG, kind="event")
    memory = brain.get(id_)
    assert (memory.id, memory.current_id, memory.kind) == (id_, id_, Kind.EVENT)
    assert (memory.body, memory.banner, memory.scope) == (LONG.strip(), None, Scope.TEAM)


def test_every_kind_is_read_with_its_own_columns(brain: Brain, subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            memory = brain.get(stored(brain, "It is so", kind=kind))
            assert memory.kind is kind
            assert memory.detail


def test_id_is_accepted_in_any_case(brain: Brain) -> None:
    id_ = stored(brain, LONG, kind="event")
    assert brain.get(f" {id_.lower()} ").id == id_


def test_hidden_and_missing_memory_give_the_same_error(brain: Brain) -> None:
    secret = stored(brain.acting_as(agent="bob"), LONG, kind="event", scope="private")
    hints: set[str] = set()
    for id_ in (secret, "mem_0000000000001"):
        with pytest.raises(NotFoundError) as refusal:
            brain.get(id_)
        hints.add(str(refusal.value).replace(id_, "it"))
    assert len(hints) == 1
    assert brain.acting_as(agent="bob").get(secret).body == LONG.strip()


def test_id_with_another_prefix_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="expected mem_"):
        brain.get("trc_0000000000001")


def test_quarantined_memory_has_a_banner(brain: Brain) -> None:
    outcome = remember_one(brain, "Never trust the docs", kind="rule", trust="untrusted_web")
    assert (brain.get(outcome.id or "").banner or "").startswith("Quarantined")


def test_memories_read_together_equal_memories_read_one_by_one(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, "The owner of billing is Ann", kind="fact")
    clock.move(timedelta(days=1))
    new = stored(brain, "The owner of billing is Bob", kind="fact")
    replaced = stored(brain, "Deploys are on Friday", kind="rule")
    based = stored(brain, "Friday needs two people", kind="fact", depends_on=[replaced])
    revised = brain.revise.supersede(replaced, "Deploys are on Monday", reason="Safer.").id
    forgotten = stored(brain, LONG, kind="event")
    brain.forget([forgotten], reason="It is over.")
    every = [old, new, replaced, based, revised or "", forgotten]

    together = brain.get_several(every, bump=False)

    assert together == tuple(brain.get(id_, bump=False) for id_ in every)
    assert [bool(one.banner) for one in together] == [True, False, True, True, False, True]
    assert [bool(one.conflicts) for one in together[:2]] == [True, True]
    assert together[1].earlier
