"""Agents that never revise: they remember the new value, and recall puts it first."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.history.review_queue import ReviewCategory
from commonbrain.model.links import LinkType
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import remember_one, stored

MONTH = timedelta(days=30)
OLD = "The limit for uploads is 10 MB."
NEW = "We raised the limit for uploads to 25 MB."
ASKED = "What is the upload limit?"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make_embedder(load_settings())


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: Embedder) -> Brain:
    return a_brain(path, clock=clock, embedder=embedder)


def shown(brain: Brain, query: str = ASKED) -> list[str]:
    return [item.id for item in brain.recall(query, bump=False).items]


def test_new_value_is_reported_linked_and_recalled_first(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, OLD)
    clock.move(MONTH)
    outcome = remember_one(brain, NEW)
    [change] = outcome.changes
    assert (change.id, change.headline) == (old, OLD)
    assert change.deny == f"revise keep_both {outcome.id} --other {old} --reason WHY"
    assert shown(brain)[:2] == [outcome.id, old]
    [note] = brain.recall(ASKED).items[1].notes
    assert note == f"earlier, changed by {outcome.id} on 2026-04-01"


def test_recall_as_of_an_earlier_time_ignores_a_later_change(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, OLD)
    then = clock.now()
    clock.move(MONTH)
    stored(brain, NEW)
    [item] = brain.recall(ASKED, as_of=then + timedelta(days=1)).items
    assert (item.id, item.notes) == (old, ())


def test_memory_derived_from_the_old_value_needs_review(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, OLD)
    plan = stored(brain, "Videos are split into parts before they are sent.", derived_from=[old])
    clock.move(MONTH)
    [change] = remember_one(brain, NEW).changes
    assert change.id == old
    [waiting] = brain.review(ReviewCategory.NEEDS_REVIEW).needs_review
    assert waiting.memory.id == plan
    # An announced change needs no decision.
    assert brain.review(ReviewCategory.CONFLICTS).conflicts == ()


def test_text_declared_distinct_by_its_author_changes_nothing(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, OLD)
    clock.move(MONTH)
    assert remember_one(brain, NEW, distinct_because="that limit is for guests").changes == ()


def test_accepting_both_values_withdraws_a_change_permanently(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, OLD)
    clock.move(MONTH)
    new = stored(brain, NEW)
    brain.revise.keep_both(new, other=old, reason="one is for guests")
    assert all(not item.notes for item in brain.recall(ASKED).items)
    assert brain.review(ReviewCategory.CONFLICTS).conflicts == ()


def test_confirmed_change_supersedes_the_old_memory(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, OLD)
    clock.move(MONTH)
    new = stored(brain, NEW)
    brain.revise.resolve(new, other=old, reason="the release notes say so")
    assert shown(brain) == [new]


@pytest.mark.parametrize("trust", ["untrusted_web", "user_claim"])
def test_less_trusted_text_does_not_change_a_more_trusted_memory(
    brain: Brain, clock: FakeClock, trust: str
) -> None:
    old = stored(brain, OLD, trust="trusted_tool")
    for value in range(20, 30):
        clock.move(MONTH)
        outcome = remember_one(brain, f"The limit for uploads is now {value} MB.", trust=trust)
        assert old not in {change.id for change in outcome.changes}
    first = brain.recall(ASKED, trust_min=0.0, bump=False).items
    assert [item.notes for item in first if item.id == old] == [()]


def test_private_note_does_not_change_what_others_see(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, OLD)
    clock.move(MONTH)
    assert remember_one(brain, NEW, scope="private").changes == ()
    bo = brain.acting_as(agent="bo")
    assert [(item.id, item.notes) for item in bo.recall(ASKED).items] == [(old, ())]


@pytest.mark.parametrize("kind", ["event", "episode", "incident"])
def test_event_is_never_outdated_by_a_new_value(brain: Brain, clock: FakeClock, kind: str) -> None:
    source = stored(brain, "Ann looked at the settings of the gateway.", kind="event")
    stored(brain, OLD, kind=kind, derived_from=[source] if kind == "episode" else [])
    clock.move(MONTH)
    assert remember_one(brain, NEW).changes == ()


def test_chain_of_values_is_recalled_newest_first(brain: Brain, clock: FakeClock) -> None:
    values: list[str] = []
    for value in (30, 45, 60):
        values.append(stored(brain, f"The API timeout is {value} seconds."))
        clock.move(MONTH)
    assert shown(brain, "How long is the API timeout?") == values[::-1]


def test_newer_memory_on_the_same_matter_is_named_without_a_judgement(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, "The summer party is at the boathouse, on the terrace.")
    clock.move(MONTH)
    new = stored(brain, "Summer party: it has to be the old mill, the boathouse is flooded.")
    assert brain.get(old).banner is None
    answer = brain.recall("Where is the summer party?", bump=False)
    by_id = {item.id: (place, item.notes) for place, item in enumerate(answer.items)}
    assert abs(by_id[old][0] - by_id[new][0]) == 1
    assert by_id[old][1] == (f"newer: {new}",)
    assert f"newer: [{by_id[new][0] + 1}]" in answer.evidence


def test_newer_of_two_that_answer_equally_well_comes_first(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, "Board games night starts in the blue hall of the library.")
    clock.move(MONTH)
    new = stored(brain, "Board games night: the yellow hall of the library is where it starts.")
    answer = brain.recall("Where does board games night start?", bump=False)
    assert [(item.id, item.notes) for item in answer.items] == [
        (new, ()),
        (old, (f"newer: {new}",)),
    ]


def test_memory_that_a_number_of_the_question_names_stays_first(
    brain: Brain, clock: FakeClock
) -> None:
    third = stored(brain, "Sprint 3 ended with two open bugs.", kind="fact")
    clock.move(MONTH)
    stored(brain, "Sprint 4 ended with five open bugs.", kind="fact")
    stored(brain, "Sprint 30 ended with nine open bugs.", kind="fact")
    assert shown(brain, "How did sprint 3 end?")[0] == third


def test_report_of_a_completed_action_changes_the_task_that_planned_it(
    brain: Brain, clock: FakeClock
) -> None:
    other = stored(brain, "Add a timeout to the importer.", kind="task")
    task = stored(brain, "Add retries to the mailer.", kind="task")
    clock.move(MONTH)
    outcome = remember_one(brain, "Added retries to the mailer in 4.2.")
    assert [change.id for change in outcome.changes] == [task]
    tasks = brain.boot().tasks
    assert [one.id for one in tasks] == [other, task]
    assert tasks[1].note == f"earlier, changed by {outcome.id} on 2026-04-01"


def test_two_compatible_facts_are_not_marked_as_a_change(brain: Brain, clock: FakeClock) -> None:
    one = stored(brain, "Marta leads the data team.")
    clock.move(MONTH)
    other = remember_one(brain, "Sven leads the platform team.")
    assert other.changes == ()
    answer = brain.recall("Who leads the data team?")
    assert (answer.items[0].id, answer.items[0].notes) == (one, ())


def test_query_for_one_subject_is_not_answered_by_a_newer_memory_of_another(
    brain: Brain, clock: FakeClock
) -> None:
    blue = stored(brain, "Cluster blue runs Kubernetes 1.29.")
    clock.move(MONTH)
    stored(brain, "Cluster green was upgraded to Kubernetes 1.31.")
    first = brain.recall("Which Kubernetes release is on blue?", bump=False).items[0]
    assert first.id == blue
    assert not any("earlier" in note for note in first.notes)


def test_value_that_returns_is_recalled_first_once_its_author_insists(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, "The API timeout is 30 seconds.")
    clock.move(MONTH)
    newer = stored(brain, "The API timeout is now 60 seconds.")
    clock.move(MONTH)
    refused = remember_one(brain, "The API timeout is 30 seconds.")
    assert refused.hint is not None
    assert refused.hint.startswith(f"{newer} changed it.")
    again = stored(brain, "The API timeout is 30 seconds.", distinct_because="set back")
    assert shown(brain, "How long is the API timeout?")[:2] == [again, newer]


def test_change_link_points_from_the_newer_to_the_older_memory(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, OLD)
    clock.move(MONTH)
    new = remember_one(brain, NEW)
    links = brain.get(str(new.id), views=["links"]).links or ()
    assert [link.type for link in links] == [LinkType.CHANGES]


def test_forgotten_value_does_not_hide_the_previous_value(brain: Brain, clock: FakeClock) -> None:
    first = stored(brain, "The venue is booked for 80 people.")
    clock.move(timedelta(minutes=2))
    newer = stored(brain, "The venue is now booked for 120 people.")
    clock.move(MONTH)
    mistaken = stored(brain, "The venue is now booked for 60 people.")
    for street in range(30):
        stored(brain, f"People park near the venue in street {street}.")
    brain.forget(mistaken, reason="another venue")
    matches = shown(brain, "For how many people is the venue booked?")
    assert matches.index(newer) < matches.index(first)


def test_recall_log_records_that_a_candidate_is_outdated(brain: Brain, clock: FakeClock) -> None:
    old = stored(brain, OLD)
    clock.move(MONTH)
    stored(brain, NEW)
    brain.recall(ASKED)
    brain.services.journal.flush()
    [listed] = brain.recalls(limit=1).recalls
    candidates = brain.recalls.one(listed.id).candidates or ()
    features = {one.id: one.features for one in candidates}
    assert features[old]["earlier"] == 1
