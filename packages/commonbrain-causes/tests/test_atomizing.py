from datetime import timedelta

import pytest
from commonbrain_causes.atomize import atomizer_of

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import Memory
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

CAUSE = "The release is late because the runner ran out of disk."
LATER = "The disk filled up, causing writes to fail two hours later."


def stored_memory(brain: Brain, id_: str | None) -> Memory:
    key = ids.parse(ids.MEMORY, str(id_))
    with brain.services.store.snapshot("default") as tx:
        return tx.memories.get([key])[key]


def links_of(brain: Brain, id_: str | None) -> list[Link]:
    with brain.services.store.snapshot("default") as tx:
        return list(tx.links.touching([ids.parse(ids.MEMORY, str(id_))]))


@pytest.mark.requirement("WP-44", "WP-23")
def test_cause_in_a_message_becomes_an_atom_that_names_the_message(brain: Brain) -> None:
    message = remember_one(
        brain, CAUSE, kind="message", detail=MessageDetail(sender="bob"), project="api"
    )
    [part] = message.derived
    atom = brain.get(str(part.id))
    assert (part.kind, atom.project, atom.confidence) == (Kind.ATOM, "api", 0.6)
    assert atom.detail["outcome"] == "The release is late"
    assert stored_memory(brain, part.id).source_message_id == ids.parse(ids.MEMORY, str(message.id))


def test_atom_has_the_time_of_its_source_and_the_delay_stated_in_the_text(brain: Brain) -> None:
    message = remember_one(brain, LATER, kind="message", occurred_at="2026-02-01T10:00:00Z")
    atom = stored_memory(brain, message.derived[0].id)
    assert atom.occurred_at == stored_memory(brain, message.id).occurred_at
    assert brain.get(str(message.derived[0].id)).detail["outcome_delay_s"] == 7200


def test_causes_are_extracted_from_other_kinds_than_messages_only_on_request(brain: Brain) -> None:
    assert remember_one(brain, CAUSE, kind="event").derived == ()
    event = remember_one(brain, LATER, kind="event", extract_causes=True)
    assert [one.kind for one in event.derived] == [Kind.ATOM]
    assert (
        remember_one(brain, f"{CAUSE} Really.", kind="message", extract_causes=False).derived == ()
    )


def test_same_cause_in_two_texts_of_a_project_is_one_atom_with_two_sources(brain: Brain) -> None:
    first = remember_one(brain, CAUSE, kind="message", project="api")
    again = remember_one(brain, f"As I said. {CAUSE}", kind="message", project="api")
    elsewhere = remember_one(brain, f"Here too. {CAUSE}", kind="message", project="web")
    assert [one.status for one in again.derived] == [ItemStatus.EXISTS]
    assert again.derived[0].id == first.derived[0].id
    assert [one.status for one in elsewhere.derived] == [ItemStatus.STORED]
    links = links_of(brain, first.derived[0].id)
    assert {one.type for one in links} == {LinkType.DERIVED_FROM}
    assert {one.to_id for one in links} == {
        ids.parse(ids.MEMORY, str(one.id)) for one in (first, again)
    }


def test_atom_of_a_text_derived_from_the_web_is_trusted_as_the_web(brain: Brain) -> None:
    web = stored(brain, "A post said so.", kind="event", trust="untrusted_web", scope="private")
    message = remember_one(brain, CAUSE, kind="event", extract_causes=True, derived_from=[web])
    atom = stored_memory(brain, message.derived[0].id)
    assert (atom.trust, atom.scope) == ("untrusted_web", "private")


def test_stored_memories_are_atomized_later_and_once(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, CAUSE, kind="incident", project="api", occurred_at="2026-02-01T10:00:00Z")
    stored(brain, "The office has a new door.", kind="event")
    clock.move(timedelta(minutes=1))
    done = atomizer_of(brain)()
    assert (done.read, done.stored, done.known) == (2, 1, 0)
    atom = stored_memory(brain, done.items[0].id)
    assert atom.occurred_at == stored_memory(brain, id_).occurred_at
    [link] = links_of(brain, done.items[0].id)
    assert (link.type, link.to_id) == (LinkType.DERIVED_FROM, ids.parse(ids.MEMORY, id_))
    assert (atomizer_of(brain)(id_).stored, atomizer_of(brain)(id_).known) == (0, 1)
    assert atomizer_of(brain)(kinds=["message"]).read == 0


def test_atomizing_missing_or_too_many_memories_is_refused(brain: Brain) -> None:
    with pytest.raises(NotFoundError):
        atomizer_of(brain)("mem_0000000000000")
    with pytest.raises(RejectedError, match="1 to 100"):
        atomizer_of(brain)(limit=101)
