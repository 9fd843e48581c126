from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

FACT = "The nightly build runs on two cores"


def conflicts(brain: Brain, id_: str | None) -> list[Link]:
    with brain.services.store.snapshot("default") as tx:
        memory_ids = [ids.parse(ids.MEMORY, str(id_))]
        return tx.links.touching(memory_ids, types=[LinkType.CONFLICTS_WITH])


def recurrences(brain: Brain, id_: str | None) -> object:
    return brain.get(str(id_)).detail["recurrences"]


@pytest.mark.requirement("WP-29")
def test_repeated_call_with_a_key_is_executed_once_and_returns_the_same_reply(brain: Brain) -> None:
    first = brain.remember(f"{FACT}\n@decision Keep it", kind="message", idempotency_key="k1")
    again = brain.remember(f"{FACT}\n@decision Keep it", kind="message", idempotency_key="k1")
    assert again.items == first.items
    assert len(first.items[0].derived) == 1
    assert brain.status().memories == 2


@pytest.mark.requirement("WP-29")
def test_idempotency_key_reused_for_another_text_is_a_conflict(brain: Brain) -> None:
    brain.remember(FACT, kind="message", idempotency_key="k1")
    with pytest.raises(RejectedError) as refused:
        brain.remember("Something else", kind="message", idempotency_key="k1")
    assert refused.value.code == "idempotency_conflict"
    assert brain.status().memories == 1


def test_idempotency_key_belongs_to_its_agent_and_expires_after_a_day(
    brain: Brain, clock: FakeClock
) -> None:
    brain.remember(FACT, kind="message", idempotency_key="k1")
    brain.acting_as(agent="bob").remember("Bob's", kind="message", idempotency_key="k1")
    clock.move(timedelta(hours=25))
    brain.remember("Something else", kind="message", idempotency_key="k1")
    assert brain.status().memories == 3


def test_refused_text_may_be_corrected_under_the_same_key(brain: Brain) -> None:
    assert brain.remember("🎉", kind="fact", idempotency_key="k").items[0].code == "gate_headline"
    assert (
        brain.remember(FACT, kind="fact", idempotency_key="k").items[0].status is ItemStatus.STORED
    )


def test_invalid_idempotency_key_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for key in ("", "k" * 200, "a\nb"):
        with subtests.test(key=key), pytest.raises(InvalidInputError):
            brain.remember(FACT, idempotency_key=key)


@pytest.mark.requirement("WP-27", "WP-33")
def test_contradicting_facts_are_both_stored_and_linked(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, "The upload limit of the api is 10 MB", kind="fact")
    clock.move(timedelta(days=1))
    new = remember_one(brain, "The upload limit of the api is 20 MB", kind="fact")
    assert (new.status, [one.id for one in new.conflicts]) == (ItemStatus.STORED, [old])
    [link] = conflicts(brain, old)
    assert ids.show(ids.MEMORY, link.from_id) == new.id
    assert link.basis == "number"
    assert {item.id for item in brain.recall("upload limit").items} == {old, new.id}


def test_less_trusted_fact_does_not_contest_a_more_trusted_one(brain: Brain) -> None:
    old = stored(brain, "The upload limit of the api is 10 MB", kind="fact")
    web = remember_one(
        brain, "The upload limit of the api is 9 MB", kind="fact", trust="untrusted_web"
    )
    assert web.conflicts == ()
    assert conflicts(brain, old) == []


def test_more_trusted_fact_contests_a_less_trusted_one(brain: Brain, clock: FakeClock) -> None:
    web = stored(brain, "The upload limit is 9 MB", kind="fact", trust="untrusted_web")
    clock.move(timedelta(days=1))
    new = remember_one(brain, "The upload limit is 10 MB", kind="fact")
    assert [one.id for one in new.conflicts] == [web]
    assert len(conflicts(brain, web)) == 1


@pytest.mark.requirement("DM-42")
def test_event_remembered_again_word_for_word_is_counted_and_not_stored(brain: Brain) -> None:
    id_ = stored(brain, "The backup finished", kind="event")
    again = remember_one(brain, "The backup finished", kind="event")
    assert (again.status, again.id) == (ItemStatus.EXISTS, id_)
    assert recurrences(brain, id_) == 1


@pytest.mark.requirement("WP-30")
def test_event_gains_salience_with_each_recurrence_up_to_a_limit(brain: Brain) -> None:
    id_ = stored(brain, "The backup finished", kind="event")
    text = stored(brain, "The kettle boiled", kind="event", importance=0.3)
    saliences = [brain.get(id_).salience]
    for _ in range(11):
        remember_one(brain, "The backup finished", kind="event")
        remember_one(brain, "The kettle boiled", kind="event")
        saliences.append(brain.get(id_).salience)

    gains = [one - saliences[0] for one in saliences]
    assert gains[:3] == pytest.approx([0, 0.02, 0.04])
    assert gains[-3:] == pytest.approx([0.18, 0.2, 0.2])
    assert brain.get(text).salience == 0.3


def test_same_event_at_another_time_is_stored_as_a_recurrence(brain: Brain) -> None:
    first = stored(brain, "The backup finished", kind="event", occurred_at="2026-03-01")
    stored(brain, "The backup finished", kind="event", occurred_at="2026-03-02")
    assert recurrences(brain, first) == 1
    repeated = remember_one(brain, "The backup finished", kind="event", occurred_at="2026-03-01")
    assert repeated.status is ItemStatus.EXISTS


def test_event_that_differs_only_in_numbers_is_stored_as_a_recurrence(brain: Brain) -> None:
    first = stored(brain, "The backup of host 7 took 12 minutes", kind="event")
    stored(brain, "The backup of host 7 took 13 minutes", kind="event")
    stored(brain, "The backup of host 9 took 14 minutes", kind="event")
    assert recurrences(brain, first) == 2


def test_event_imported_twice_did_not_recur(brain: Brain) -> None:
    log = Draft(body="The backup finished", kind="event", source_ref="log:1")
    [first] = brain.remember(log).items
    [again] = brain.remember(log).items
    assert (again.status, recurrences(brain, first.id)) == (ItemStatus.EXISTS, 0)


def test_clock_set_back_loses_no_memory(brain: Brain, clock: FakeClock) -> None:
    first = stored(brain, FACT, kind="fact")
    clock.move(timedelta(days=-30))
    second = stored(brain, "Tea is ready at five", kind="fact")
    assert {item.id for item in brain.recall("").items} == {first, second}


def test_long_text_is_compared_by_its_nearest_part(brain: Brain) -> None:
    # The embedder reads 150 words at once, each window 37 of the one before.
    part = " ".join(f"ferry{n}" for n in range(150))
    id_ = stored(brain, part, kind="incident", headline="Ferry")
    before = " ".join(f"train{n}" for n in range(113))
    outcome = remember_one(brain, f"{before} {part}", kind="incident", headline="Train")
    assert [one.id for one in outcome.similar] == [id_]


@pytest.mark.parametrize("kind", ["fact", "rule", "task", "event"])
def test_identical_text_declared_distinct_is_stored_once_for_each_reason_and_found(
    brain: Brain, kind: str
) -> None:
    first = stored(brain, FACT, kind=kind)
    known = remember_one(brain, FACT, kind=kind)
    assert (known.status, known.id) == (ItemStatus.EXISTS, first)
    if kind != "event":
        assert known.code == "exists"
        assert "distinct_because" in (known.hint or "")
    other = stored(brain, FACT, kind=kind, distinct_because="of the new host")
    again = remember_one(brain, FACT, kind=kind, distinct_because="of the new host")
    assert (again.status, again.id) == (ItemStatus.EXISTS, other)
    third = stored(brain, FACT, kind=kind, distinct_because="of the old host")
    assert {one.id for one in brain.recall(FACT).items} == {first, other, third}


def test_event_that_is_declared_distinct_is_no_recurrence(brain: Brain) -> None:
    first = stored(brain, "The export failed", kind="event")
    stored(brain, "The export failed", kind="event", distinct_because="another export")
    assert recurrences(brain, first) == 0
