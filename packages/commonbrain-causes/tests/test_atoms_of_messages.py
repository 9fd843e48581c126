"""What becomes of what was found in a text once the text is forgotten, erased or told again."""

from datetime import timedelta
from pathlib import Path

import pytest
from commonbrain_causes.atomize import atomizer_of

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, remember_one, stored

WORD = "Zanzibar"
CAUSE = f"The {WORD} disk filled up, causing the database to stop for an hour."
WHY = "wrong"


def key(id_: str | None) -> int:
    return ids.parse(ids.MEMORY, str(id_))


def sources(brain: Brain, id_: str | None) -> set[int]:
    """What a memory is derived from."""
    with brain.services.store.snapshot("default") as tx:
        links = tx.links.touching([key(id_)], types=[LinkType.DERIVED_FROM])
    return {one.to_id for one in links if one.from_id == key(id_)}


def erase(brain: Brain, id_: str | None) -> int:
    preview = brain.erase(str(id_), reason=WHY)
    return brain.erase(str(id_), reason=WHY, confirm=preview.count).count


@pytest.mark.requirement("LC-14")
@pytest.mark.parametrize("text", [CAUSE, f"Hello. @decision {WORD} is closed from now on."])
def test_erasing_a_message_erases_the_memories_extracted_from_it(
    brain: Brain, path: Path, text: str
) -> None:
    message = remember_one(brain, text, kind="message")
    assert len(message.derived) == 1
    assert erase(brain, message.id) == 2
    assert brain.get(str(message.derived[0].id)).body is None
    for file in path.parent.glob(f"{path.name}*"):
        assert WORD.encode() not in file.read_bytes(), file


@pytest.mark.requirement("LC-14")
def test_atom_without_a_link_to_its_message_is_erased_with_the_message(brain: Brain) -> None:
    message = remember_one(brain, CAUSE, kind="message")
    without_link(brain, str(message.derived[0].id))
    assert sources(brain, message.derived[0].id) == set()
    assert erase(brain, message.id) == 2
    assert brain.get(str(message.derived[0].id)).body is None


def test_forgetting_a_message_archives_the_atoms_extracted_from_it(brain: Brain) -> None:
    message = remember_one(brain, CAUSE, kind="message")
    assert brain.revise.preview(str(message.id)).count == 1
    assert brain.forget(str(message.id), reason=WHY).affected is not None
    assert brain.get(str(message.derived[0].id)).state is State.ARCHIVED


def test_expired_message_leaves_its_atoms_active(brain: Brain, clock: FakeClock) -> None:
    message = remember_one(
        brain, CAUSE, kind="message", expires_at=clock.now() + timedelta(hours=1)
    )
    clock.move(timedelta(hours=2))
    stored(brain, "Lunch is at noon", kind="fact")
    atom = brain.get(str(message.derived[0].id))
    assert (atom.state, atom.banner) == (State.ACTIVE, None)


@pytest.mark.parametrize("kind", ["incident", "message"])
def test_atom_with_two_sources_outlives_either_of_them(brain: Brain, kind: str) -> None:
    first, second = (
        remember_one(
            brain, f"{when}\n{CAUSE}", kind=kind, extract_causes=True, distinct_because="again"
        )
        for when in ("Monday again, an alarm.", "On Friday the pager rang twice.")
    )
    assert [one.status for one in second.derived] == [ItemStatus.EXISTS]
    [atom] = [one.id for one in first.derived]
    assert sources(brain, atom) == {key(first.id), key(second.id)}
    brain.forget(str(first.id), reason=WHY)
    assert brain.get(str(atom)).state is State.ACTIVE
    assert erase(brain, first.id) == 1
    brain.forget(str(second.id), reason=WHY)
    assert brain.get(str(atom)).state is State.ARCHIVED


def test_cause_extracted_from_two_texts_is_derived_from_both_and_counted_once(brain: Brain) -> None:
    first = stored(brain, f"Monday, noon.\n{CAUSE}", kind="incident")
    second = stored(brain, f"The pager.\n{CAUSE}", kind="incident", distinct_because="again")
    done, again = (atomizer_of(brain)([first, second]) for _ in range(2))
    [atom] = {one.id for one in (*done.items, *again.items)}
    assert sources(brain, atom) == {key(first), key(second)}
    version = brain.get(str(atom)).version
    atomizer_of(brain)([first, second])
    assert brain.get(str(atom)).version == version


def test_missing_source_link_of_an_earlier_version_is_added(brain: Brain) -> None:
    first = remember_one(brain, CAUSE, kind="message")
    atom = str(first.derived[0].id)
    without_link(brain, atom)
    second = remember_one(brain, f"As I said. {CAUSE}", kind="message")
    assert sources(brain, atom) == {key(first.id), key(second.id)}


def test_less_trusted_text_is_no_source_of_a_more_trusted_atom(brain: Brain) -> None:
    first = remember_one(brain, CAUSE, kind="incident", extract_causes=True, trust="trusted_tool")
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    again = remember_one(web, f"I read so. {CAUSE}", kind="message")
    [atom] = [one.id for one in first.derived]
    assert again.derived[0].id == atom
    assert sources(brain, atom) == {key(first.id)}
    brain.forget(str(first.id), reason=WHY)
    assert brain.get(str(atom)).state is State.ARCHIVED


def test_atom_written_by_hand_outlives_texts_that_state_the_same(brain: Brain) -> None:
    atom = remember_one(brain, "@atom The disk | filled up | the database to stop for an hour").id
    text = "The disk filled up, causing the database to stop for an hour."
    message = remember_one(brain, text, kind="message")
    assert [one.id for one in message.derived] == [atom]
    assert sources(brain, atom) == set()
    brain.forget(str(message.id), reason=WHY)
    assert len(bodies(brain)) == 1


def without_link(brain: Brain, atom: str) -> None:
    """Make an atom look as one of the version that only named its message."""
    with brain.services.store.begin("default") as tx:
        for link in tx.links.touching([key(atom)], types=[LinkType.DERIVED_FROM]):
            assert tx.links.drop(link.from_id, link.to_id, type_=link.type)
