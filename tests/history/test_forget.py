from dataclasses import replace

import pytest

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.kinds import IncidentDetail
from commonbrain.model.memory import State
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Role, Trust
from tests.asking import bodies, stored

FACT = "The nightly build runs on two cores"


@pytest.mark.requirement("LC-05", "LC-13", "LC-06")
def test_forgotten_memory_is_in_no_index_and_leaves_a_tombstone(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    done = brain.forget(id_, reason=" It was wrong ")
    assert (done.status, done.count, done.reason) == (Phase.DONE, 1, "It was wrong")
    assert [one.id for one in done.items] == [id_]
    for query in ("nightly", FACT, ""):
        assert brain.recall(query).verdict is ResultStatus.NOTHING_STORED
    memory = brain.get(id_)
    assert (memory.state, memory.body) == (State.FORGOTTEN, None)
    assert (memory.banner or "").startswith("Forgotten")
    assert brain.doctor().is_sound


def test_forgetting_a_memory_does_not_change_other_memories(brain: Brain) -> None:
    retained = "Deploys happen at noon"
    stored(brain, retained, kind="fact")
    brain.forget(stored(brain, FACT, kind="fact"), reason="wrong")
    assert bodies(brain) == [retained]


def test_forgetting_a_forgotten_memory_changes_nothing(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    brain.forget(id_, reason="wrong")
    assert brain.forget(id_, reason="still wrong").status is Phase.UNCHANGED


@pytest.mark.requirement("LC-05")
def test_forgetting_needs_a_reason(brain: Brain, subtests: pytest.Subtests) -> None:
    id_ = stored(brain, FACT, kind="fact")
    for reason in ["", " \n", "x" * 1001]:
        with subtests.test(reason=reason):
            with pytest.raises(InvalidInputError, match="reason"):
                brain.forget(id_, reason=reason)
            assert bodies(brain) == [FACT]


def test_hidden_and_missing_memory_give_the_same_error(brain: Brain) -> None:
    secret = stored(brain.acting_as(agent="bob"), FACT, kind="fact", scope="private")
    hints: set[str] = set()
    for id_ in (secret, "mem_0000000000001"):
        with pytest.raises(NotFoundError) as refusal:
            brain.forget(id_, reason="curious")
        hints.add(str(refusal.value).replace(id_, "it"))
    assert len(hints) == 1
    assert bodies(brain.acting_as(agent="bob")) == [FACT]


def test_malformed_id_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="not an id"):
        brain.forget("the build", reason="wrong")


@pytest.mark.requirement("LC-14")
def test_forgetting_a_more_trusted_memory_is_only_proposed(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact", trust="trusted_tool")
    bob = brain.acting_as(agent="bob", trust_ceiling=Trust.USER_CLAIM)
    proposal, again = (bob.forget(id_, reason="rival") for _ in range(2))
    assert (proposal.status, proposal.count) == (Phase.PROPOSED, 0)
    assert proposal.items == again.items
    assert bodies(brain) == [FACT]
    brain.revise.approve(proposal.items[0].id, reason="right")
    assert bodies(brain) == []
    assert brain.get(id_).state is State.FORGOTTEN


def test_reader_cannot_forget_a_memory(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    reader = Brain(brain.services, replace(brain.caller, role=Role.READER))
    with pytest.raises(RejectedError) as refusal:
        reader.forget(id_, reason="wrong")
    assert refusal.value.code == "insufficient_role"
    assert bodies(reader) == [FACT]


def test_chain_with_a_forgotten_head_has_no_current_memory(brain: Brain) -> None:
    old = stored(brain, FACT, kind="fact")
    new = brain.revise.supersede(old, "It runs on four cores", reason="upgrade").id or ""
    brain.forget(new, reason="wrong")
    memory = brain.get(old)
    assert memory.current_id == new
    assert "holds now" not in (memory.banner or "")
    assert "four" not in (memory.banner or "")
    assert bodies(brain) == []


def test_no_word_of_a_forgotten_memory_is_shown_again(brain: Brain) -> None:
    detail = IncidentDetail(root_cause="Zanzibar", resolution="Zanzibar")
    id_ = stored(brain, "Zanzibar fell", kind="incident", tags=["Zanzibar"], detail=detail)
    brain.forget(id_, reason="wrong")
    assert "Zanzibar" not in f"{brain.get(id_)} {brain.forget(id_, reason='again')}"
