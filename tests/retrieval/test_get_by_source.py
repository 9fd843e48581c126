"""A memory is found by the reference that its source gave it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, NotFoundError
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Role, Scope
from commonbrain.testing.builders import FakeClock
from tests.transfer.test_import_relations import NEW, OLD, OTHER, PIECES, piece, run


@pytest.mark.requirement("MG-27")
def test_memory_is_found_by_its_source(brain: Brain) -> None:
    run(brain)
    shown = brain.get("a#3")
    assert (shown.body, shown.banner, shown.namesakes) == (OTHER.body, None, None)
    by_both = brain.get_several(["a#3", shown.id, "a#2"])
    assert [one.body for one in by_both] == [OTHER.body, NEW.body]


@pytest.mark.requirement("MG-27")
def test_superseded_memory_is_found_by_its_source_and_names_the_newer(brain: Brain) -> None:
    run(brain)
    shown = brain.get("a#1")
    assert shown.body == OLD.body
    assert brain.get("a#2").id in str(shown.banner)


def test_current_one_of_several_from_a_source_is_shown_and_the_others_named(brain: Brain) -> None:
    run(brain, [*PIECES[:2], PIECES[3], piece(replace(OTHER, source_ref="a#1"))])
    shown = brain.get("a#1")
    assert shown.body == OTHER.body
    assert shown.namesakes is not None
    assert [brain.get(other).body for other in shown.namesakes] == [OLD.body]


@pytest.mark.requirement("MG-27")
def test_source_of_anothers_private_memory_is_not_found(brain: Brain) -> None:
    run(brain, [piece(replace(OLD, author="charon", scope=Scope.PRIVATE))])
    eve = Brain(brain.services, replace(brain.caller, agent="eve", role=Role.WRITER))
    with pytest.raises(NotFoundError) as hidden:
        eve.get("a#1")
    with pytest.raises(NotFoundError) as missing:
        eve.get("a#9")
    assert str(hidden.value).replace("a#1", "a#9") == str(missing.value)


@pytest.mark.requirement("MG-27")
def test_model_does_not_take_the_place_of_an_imported_memory(brain: Brain) -> None:
    run(brain)
    brain.as_model().remember("The gate is open to everybody", source_ref="a#1")
    shown = brain.get("a#1")
    assert shown.body == OLD.body
    assert len(shown.namesakes or ()) == 1


@pytest.mark.requirement("MG-27")
def test_private_memories_of_others_hide_no_source(brain: Brain, clock: FakeClock) -> None:
    eve = Brain(brain.services, replace(brain.caller, agent="eve", role=Role.WRITER))
    early = Draft(body="", source_ref="a#1", scope=Scope.PRIVATE)
    eve.remember([replace(early, body=f"Berth {n} is free") for n in range(100)])
    clock.move(timedelta(days=1))
    brain.remember(OLD.body, source_ref="a#1")
    assert brain.get("a#1").body == OLD.body


def test_what_is_neither_id_nor_source_is_malformed(brain: Brain) -> None:
    with pytest.raises(InvalidInputError):
        brain.get("138")
