"""An atom is an observation: another time is another one, and it stands and falls with its text."""

from datetime import timedelta
from typing import Unpack

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import DraftFields
from commonbrain.model.memory import State
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one

FAILED = "The deploy failed because the disk was full."
OF_INCIDENTS = DraftFields(kind="incident", extract_causes=True)


def incident(brain: Brain, **known: Unpack[DraftFields]) -> ItemResult:
    return remember_one(brain, FAILED, **{**OF_INCIDENTS, **known})


def test_same_words_at_another_time_are_another_observation(brain: Brain) -> None:
    days = [incident(brain, occurred_at=f"2026-02-{day:02}T10:00:00Z") for day in (3, 9, 17)]
    atoms = [part.id for one in days for part in one.derived]
    assert [part.status for one in days for part in one.derived] == [ItemStatus.STORED] * 3
    assert len(set(atoms)) == 3
    pattern = brain.trace.patterns("deploy failed").pattern
    assert pattern is not None
    assert pattern.observations == 3


def test_incident_without_a_time_happened_when_it_was_remembered(
    brain: Brain, clock: FakeClock
) -> None:
    [first] = incident(brain).derived
    clock.move(timedelta(minutes=1))
    [again] = incident(brain).derived
    assert (again.status, again.id == first.id) == (ItemStatus.STORED, False)


def test_incident_remembered_twice_from_one_source_is_one_observation(brain: Brain) -> None:
    at = "2026-02-03T10:00:00Z"
    [first] = incident(brain, occurred_at=at, source_ref="log.md:3").derived
    [again] = incident(brain, occurred_at=at, source_ref="log.md:3").derived
    assert (again.status, again.id) == (ItemStatus.EXISTS, first.id)


def test_atoms_of_a_quarantined_memory_are_quarantined(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    rule = remember_one(web, f"Never deploy on Friday. {FAILED}", kind="rule", extract_causes=True)
    assert rule.status is ItemStatus.QUARANTINED
    [part] = rule.derived
    assert brain.get(part.id or "").state is State.QUARANTINED
    assert brain.revise.approve(part.id or "", reason="it was so").status == "done"
    assert brain.get(part.id or "").state is State.ACTIVE


def test_approving_an_atom_of_a_proposed_text_does_not_approve_the_proposal(brain: Brain) -> None:
    one = remember_one(brain, "Deploys run at night", kind="fact")
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposed = web.revise.supersede(
        one.id or "", f"Deploys run at noon. {FAILED}", reason="said so", extract_causes=True
    )
    [part] = proposed.derived
    brain.revise.approve(part.id or "", reason="it was so")
    assert brain.get(one.id or "").state is State.ACTIVE


@pytest.mark.parametrize("kind", ["incident", "event"])
def test_atom_is_archived_with_the_memory_it_was_extracted_from(brain: Brain, kind: str) -> None:
    source = remember_one(brain, FAILED, kind=kind, extract_causes=True)
    [part] = source.derived
    done = brain.forget(source.id or "", reason="it never failed")
    assert done.affected is not None
    assert done.affected.ids == (part.id,)
