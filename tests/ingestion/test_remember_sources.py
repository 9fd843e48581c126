import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.kinds import MessageDetail, TaskPriority
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, ThreadRef
from tests.asking import remember_one, stored


@pytest.mark.requirement("DM-55")
def test_derived_memory_is_linked_and_no_more_trusted_than_its_sources(
    brain: Brain,
) -> None:
    web = stored(brain, "The vendor promises 99% uptime", kind="fact", trust="untrusted_web")
    private = stored(brain, "We saw two outages in May", kind="event", scope="private")
    outcome = remember_one(
        brain, "The promise does not hold", kind="fact", derived_from=[web, private]
    )
    memory = brain.get(str(outcome.id))
    assert (memory.trust, memory.scope) == ("untrusted_web", "private")
    assert any("scope is private" in warning for warning in outcome.warnings)
    with brain.services.store.snapshot("default") as tx:
        links = tx.links.touching([ids.parse(ids.MEMORY, str(outcome.id))])
    assert {ids.show(ids.MEMORY, link.to_id) for link in links} == {web, private}
    assert {link.type for link in links} == {LinkType.DERIVED_FROM}


def test_private_memory_of_another_agent_is_refused_as_a_source(brain: Brain) -> None:
    secret = stored(brain.acting_as(agent="bob"), "Bob is tired", kind="fact", scope="private")
    with pytest.raises(NotFoundError) as unseen:
        remember_one(brain, "Somebody is tired", kind="fact", derived_from=[secret])
    with pytest.raises(NotFoundError) as missing:
        remember_one(brain, "Somebody is tired", kind="fact", derived_from=["mem_38G14A31WKSQK"])
    assert unseen.value.code == missing.value.code == "not_found"
    assert brain.status().memories == 1


def test_source_message_is_named_and_must_be_a_message(brain: Brain) -> None:
    text = stored(brain, "Let us use Postgres", kind="message")
    id_ = ids.parse(ids.MEMORY, stored(brain, "It is Postgres", kind="fact", source_message=text))
    with brain.services.store.snapshot("default") as tx:
        assert tx.memories.get([id_])[id_].source_message_id == ids.parse(ids.MEMORY, text)
    with pytest.raises(InvalidInputError):
        remember_one(brain, "It is Redis", kind="fact", source_message=ids.show(ids.MEMORY, id_))


def test_unknown_thread_or_parent_is_refused_and_nothing_is_stored(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for detail in (MessageDetail(thread_id=7), MessageDetail(parent_id=7)):
        with subtests.test(detail=detail):
            with pytest.raises(InvalidInputError):
                remember_one(brain, "Good day", kind="message", detail=detail)
            assert brain.status().memories == 0


def test_text_of_a_wrong_type_is_invalid(brain: Brain, subtests: pytest.Subtests) -> None:
    for offered in (
        *(5, None, b"text", [1, 2], [None], {"body": "x"}),
        Draft(body=5),  # type: ignore[arg-type]
        Draft(body="x", tags=(1,)),  # type: ignore[arg-type]
        Draft(body="x", confidence="high"),  # type: ignore[arg-type]
        Draft(body="x", kind=3),  # type: ignore[arg-type]
    ):
        with subtests.test(offered=offered), pytest.raises(InvalidInputError):
            brain.remember(offered)  # type: ignore[arg-type]


def test_field_of_a_wrong_type_is_invalid(brain: Brain, subtests: pytest.Subtests) -> None:
    for fields in (
        {"tags": 5},
        {"occurred_at": 5},
        {"scope": 5},
        {"derived_from": ["x"]},
        {"colour": "red"},
    ):
        with subtests.test(fields=fields), pytest.raises(InvalidInputError):
            brain.remember("Tea is ready", **fields)  # type: ignore[arg-type]


def test_column_of_another_kind_or_with_an_invalid_value_is_rejected(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for fields in (
        {"kind": "fact", "due_at": "2027-01-01"},
        {"kind": "task", "due_at": "tomorrow"},
        {"kind": "task", "priority": "huge"},
        {"kind": "rule", "must_ack": "yes"},
    ):
        with subtests.test(fields=fields):
            outcome = remember_one(brain, "Rotate the keys", **fields)  # type: ignore[arg-type]
            assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "gate_kind")


@pytest.mark.requirement("WP-10")
def test_columns_of_a_kind_are_given_by_name_and_imply_the_kind(brain: Brain) -> None:
    task = remember_one(
        brain, "Rotate the keys", due_at="2027-01-01", priority="high", assignee="bob"
    )
    assert task.kind == "task"
    assert brain.get(str(task.id)).detail["priority"] == TaskPriority.HIGH
    assert remember_one(brain, "The port is 5432", subject="port").kind == "fact"


def test_names_of_a_thread_that_are_too_long_are_refused(brain: Brain) -> None:
    thread = ThreadRef(key="k" * 600, subject="Hello")
    outcome = remember_one(brain, "Good day", kind="message", thread=thread)
    assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "limit_exceeded")


def test_sender_that_cannot_be_encoded_is_corrected(brain: Brain) -> None:
    id_ = stored(brain, "Good day", kind="message", detail=MessageDetail(sender="a\ud83db\x1b"))
    assert brain.get(id_).detail["sender"] == "a?b"
