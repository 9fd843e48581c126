"""Lists for people: which memories are on a page, what of them is shown, and what facets count."""

import csv
import io
from datetime import timedelta

import pytest

from commonbrain.api.operations.list import to_csv
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.listing import FacetCount
from commonbrain.model.memory import Draft, State
from commonbrain.retrieval.listing import MemoryPage
from commonbrain.testing.builders import FakeClock
from tests.asking import stored


def ids_of(page: MemoryPage) -> list[str]:
    return [one.id for one in page.memories]


def counts(facet: tuple[FacetCount, ...]) -> dict[str | None, int]:
    return {one.value: one.count for one in facet}


@pytest.mark.requirement("OB-20")
def test_list_is_ordered_by_time_of_recording_or_of_occurrence(
    brain: Brain, clock: FakeClock
) -> None:
    late = stored(brain, "The quay is open", kind="fact")
    clock.move(timedelta(minutes=1))
    early = stored(brain, "The crane fell", kind="event", occurred_at="2020-02-01")

    assert ids_of(brain.list()) == [early, late]
    assert ids_of(brain.list(order="recorded_oldest")) == [late, early]
    assert ids_of(brain.list(order="occurred")) == [late, early]
    assert ids_of(brain.list(order="occurred_oldest")) == [early, late]
    assert ids_of(brain.list(until="2020-02-01")) == [early]
    assert ids_of(brain.list(recorded_since="10 seconds ago")) == [early]
    with pytest.raises(InvalidInputError):
        brain.list(order="strength")
    with pytest.raises(RejectedError, match="limit is 201; 1 to 200 is allowed"):
        brain.list(limit=201)


@pytest.mark.requirement("OB-14", "OB-20")
def test_pages_of_a_list_count_the_rest_and_accept_only_their_own_cursor(
    brain: Brain, clock: FakeClock
) -> None:
    stored_ids: list[str] = []
    for number in range(5):
        stored_ids.append(stored(brain, f"Crate {number} is full", kind="event"))
        clock.move(timedelta(seconds=1))
    first = brain.list(kinds=["event"], limit=2)
    # A list and a tuple are the same filter.
    second = brain.list(kinds=("event",), limit=2, cursor=first.next)
    stored(brain, "Crate 9 was added", kind="event")
    last = brain.list(kinds=["event"], limit=2, cursor=second.next)

    assert [first.more, second.more, last.more] == [3, 1, 0]
    assert ids_of(first) + ids_of(second) + ids_of(last) == stored_ids[::-1]
    for other in ({"kinds": ["fact"]}, {"order": "occurred"}, {"project": ""}):
        with pytest.raises(InvalidInputError, match="not a cursor of this list"):
            brain.list(**({"kinds": ["event"]} | other), cursor=first.next)  # type: ignore[arg-type]


@pytest.mark.requirement("OB-20")
def test_facet_counts_the_memories_that_each_choice_would_list(brain: Brain) -> None:
    known: tuple[tuple[str | None, str, str | None], ...] = (
        ("shop", "fact", None),
        ("shop", "event", "release"),
        ("api", "event", None),
        (None, "event", "release"),
    )
    brain.remember(
        [
            Draft(
                body=f"The {kind} {label} of {project} is known",
                kind=kind,
                project=project,
                label=label,
                tags=("red",),
            )
            for project, kind, label in known
        ]
    )
    page = brain.list(project="shop", kinds=["event"], facets=True)
    assert page.facets is not None

    assert len(page.memories) == 1
    assert counts(page.facets.kind) == {"event": 1, "fact": 1}
    assert counts(page.facets.project) == {"shop": 1, "api": 1, None: 1}
    assert counts(page.facets.label) == {"release": 1}
    assert counts(page.facets.tag) == {"red": 1}
    assert page.facets.omitted == {}
    for one in page.facets.project:
        assert len(brain.list(project=one.value or "", kinds=["event"]).memories) == one.count
    assert len(brain.list(labels=[""], kinds=["event"]).memories) == 1
    assert brain.list(project="shop").facets is None


def test_facet_shows_its_twenty_most_frequent_values_and_counts_the_omitted_ones(
    brain: Brain,
) -> None:
    drafts = [
        Draft(body=f"Shelf {number} holds crate {number}", kind="event", label=f"label{number:02}")
        for number in (*range(25), 7)
    ]
    # The second of the same words would be an occurrence of the first.
    brain.remember([*drafts[:-1], Draft(body="Rust was found", kind="event", label="label07")])
    facets = brain.list(facets=True, limit=1).facets
    assert facets is not None
    labels = [f"label{number:02}" for number in range(25)]
    assert [one.value for one in facets.label] == ["label07", *labels[:7], *labels[8:20]]
    assert facets.omitted == {"label": 5}


@pytest.mark.requirement("OB-20")
def test_memories_of_every_state_are_listed_on_request_and_forgotten_ones_without_text(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, "The ledger lives in Oslo", kind="fact", tags=["place"])
    new = brain.revise.supersede(old, "The ledger lives in Bergen", reason="moved").id
    removed = stored(brain, "The attic is empty", kind="fact", tags=["attic"])
    brain.forget(removed, reason="it is full")
    over = stored(
        brain, "The sale lasts a day", kind="fact", expires_at=clock.now() + timedelta(days=1)
    )
    clock.move(timedelta(days=2))

    assert ids_of(brain.list()) == [new]
    every = {one.id: one for one in brain.list(states=[*State]).memories}
    assert {id_: one.state for id_, one in every.items()} == {
        old: "superseded", new: "active", removed: "forgotten", over: "expired",
    }  # fmt: skip
    assert every[old].superseded_by == new
    assert (every[removed].headline, every[removed].tags) == ("(forgotten)", ())
    assert ids_of(brain.list(states=["expired"])) == [over]
    assert ids_of(brain.list(states=[*State], tags=["attic"])) == []
    facets = brain.list(states=["forgotten"], facets=True).facets
    assert facets is not None
    assert counts(facets.state) == {"superseded": 1, "active": 1, "forgotten": 1, "expired": 1}
    assert facets.tag == ()


@pytest.mark.requirement("OB-20")
def test_memories_that_need_review_are_listed_on_request(brain: Brain) -> None:
    base = stored(brain, "The quay is open", kind="fact")
    leaf = stored(brain, "Ships may land at the quay", kind="fact", depends_on=[base])
    stored(brain, "The crane is green", kind="fact")
    brain.forget(base, reason="it was closed")

    assert ids_of(brain.list(states=["needs_review"])) == [leaf]
    facets = brain.list(states=["needs_review"], facets=True).facets
    assert facets is not None
    assert counts(facets.kind) == {"fact": 1}
    # What needs review is archived until that is done.
    assert counts(facets.state) == {"active": 1, "archived": 1, "forgotten": 1}


@pytest.mark.requirement("OB-20", "DM-25")
def test_private_memory_of_another_agent_is_neither_listed_nor_counted(brain: Brain) -> None:
    stored(brain, "My password hint is a bird", kind="fact", scope="private", label="hint")
    bob = brain.acting_as(agent="bob")
    page = bob.list(states=[*State], facets=True)
    assert page.memories == ()
    assert page.facets is not None
    assert (page.facets.label, page.facets.month, page.facets.agent) == ((), (), ())
    assert len(brain.list(facets=True).memories) == 1


def test_csv_has_a_header_and_no_cell_that_a_spreadsheet_would_execute(brain: Brain) -> None:
    stored(brain, '=HYPERLINK("https://example.com") is a formula, "quoted"', kind="fact")
    [row] = csv.DictReader(io.StringIO(to_csv(brain.list())))
    assert row["kind"] == "fact"
    assert row["headline"].startswith("'=HYPERLINK(")
    assert row["id"].startswith("mem_")
