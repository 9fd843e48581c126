"""Forgetting several at once, erasing and pruning: previewed, bounded, with protected kinds."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.history.selection import Phase
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.kinds import IncidentDetail, Kind, TaskDetail, TaskStatus
from commonbrain.model.limits import FORGET_AT_ONCE_MAX
from commonbrain.model.memory import Draft, State
from commonbrain.model.scope import Role, Trust
from commonbrain.runtime.bootstrap import open_brain
from commonbrain.testing.builders import FakeClock, a_memory
from tests.asking import bodies, stored

CITIES = ("Zanzibar", "Reykjavik", "Antwerp", "Montevideo")


def events(brain: Brain, *, project: str | None = None) -> list[str]:
    extra = {"project": project} if project else {}
    return [
        stored(brain, f"The office in {city} opened", kind="event", tags=["office"], **extra)  # pyright: ignore[reportArgumentType]
        for city in CITIES
    ]


@pytest.mark.requirement("LC-14")
def test_more_than_one_match_is_previewed_until_the_count_is_confirmed(brain: Brain) -> None:
    made = events(brain)
    other = stored(brain, "Deploys happen at noon", kind="fact")
    brain.revise.link(other, made[0], type="depends_on")
    preview = brain.forget(tags=["office"], reason="closed")
    assert (preview.status, preview.count, preview.by_kind) == (Phase.PREVIEW, 4, {Kind.EVENT: 4})
    assert {one.id for one in preview.items} == set(made)
    assert [one.id for one in preview.dependents] == [other]
    assert "confirm=4" in (preview.hint or "")
    with_wrong_count = brain.forget(tags=["office"], reason="closed", confirm=3)
    assert (with_wrong_count.status, len(bodies(brain))) == (Phase.PREVIEW, 5)
    done = brain.forget(tags=["office"], reason="closed", confirm=4)
    assert (done.status, done.count, bodies(brain)) == (
        Phase.DONE,
        4,
        ["Deploys happen at noon"],
    )
    assert brain.forget(tags=["office"], reason="closed").status is Phase.UNCHANGED
    assert brain.doctor().is_sound


def test_forgetting_several_ids_is_previewed(brain: Brain) -> None:
    made = events(brain)
    assert brain.forget(made[:2], reason="closed").status is Phase.PREVIEW
    assert brain.forget(made[:2], reason="closed", confirm=2).status is Phase.DONE
    assert len(bodies(brain)) == 2


def test_forgetting_by_tag_skips_and_reports_more_trusted_memories(brain: Brain) -> None:
    made = events(brain)
    stored(brain, "The office in Oslo opened", kind="event", tags=["office"], trust="trusted_tool")
    bob = brain.acting_as(agent="bob", trust_ceiling=Trust.USER_CLAIM)
    preview = bob.forget(tags=["office"], reason="closed")
    assert (preview.count, preview.skipped_count) == (len(made), 1)
    assert "trusted_tool" in (preview.skipped[0].why or "")
    bob.forget(tags=["office"], reason="closed", confirm=4)
    assert bodies(brain) == ["The office in Oslo opened"]


def test_forgetting_a_project_leaves_memories_of_every_project(brain: Brain) -> None:
    events(brain, project="shop")
    stored(brain, "Everybody goes home at five", kind="fact")
    brain.forget(project="shop", reason="ended", confirm=4)
    assert bodies(brain) == ["Everybody goes home at five"]


def test_forgetting_several_needs_a_valid_selector(brain: Brain) -> None:
    id_ = stored(brain, "Deploys happen at noon", kind="fact")
    with pytest.raises(InvalidInputError, match="No selector"):
        brain.forget(reason="all of it")
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        brain.forget(id_, tags=["x"], reason="both")
    with pytest.raises(NotFoundError):
        brain.forget([id_, "mem_0000000000001"], reason="one is none")
    with pytest.raises(RejectedError, match="100"):
        brain.forget([f"mem_{n:013d}" for n in range(101)], reason="many")


def test_one_call_forgets_a_limited_number_and_reports_that_more_are_left(brain: Brain) -> None:
    total = FORGET_AT_ONCE_MAX + 3
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for number in range(1, total + 1):
            tx.memories.add(a_memory(number, f"Thing x{number} happened", kind=Kind.EVENT))
    preview = brain.forget(kinds=["event"], reason="noise")
    assert (preview.count, preview.is_more) == (FORGET_AT_ONCE_MAX, True)
    done = brain.forget(kinds=["event"], reason="noise", confirm=preview.count)
    assert "More are left" in (done.hint or "")
    assert brain.forget(kinds=["event"], reason="noise").count == 3


@pytest.mark.requirement("LC-14")
def test_erase_leaves_no_byte_of_the_text(brain: Brain, path: Path) -> None:
    secret, sources = "Zanzibar", "It also has other sources."
    old = stored(brain, f"{secret} is the name of the project", kind="fact", tags=[secret])
    retained = stored(brain, "Deploys happen at noon", kind="fact")
    copy = stored(brain, f"We spoke of {secret} at length", kind="episode")
    both = stored(brain, "We spoke of names and deploys", kind="episode")
    for made, source in ((copy, old), (both, old), (both, retained)):
        brain.revise.link(made, source, type="derived_from")
    brain.revise.annotate(old, f"{secret} is an island")
    brain.revise.retag(old, add=[f"{secret}-2"])
    brain.recall(f"what is {secret}?")
    preview = brain.erase(old, reason="leaked")
    assert (preview.status, preview.count) == (Phase.PREVIEW, 2)
    assert {one.id for one in preview.items} == {old, copy}
    assert [(one.id, one.why) for one in preview.dependents] == [(both, sources)]
    assert brain.get(old).body is not None
    done = brain.erase(old, reason="leaked", confirm=2)
    assert done.status is Phase.DONE
    assert done.hint is None, done.hint
    expected_tables = {
        "memories",
        "facts",
        "annotations",
        "links",
        "changes",
        "vectors",
        "recall_traces",
    }
    assert expected_tables | {"entities", "full text", "idempotency", "file"} <= set(done.receipt)
    assert (done.receipt["annotations"], done.receipt["file"]) == (1, 1)
    for file in path.parent.glob(f"{path.name}*"):
        assert secret.encode() not in file.read_bytes(), file
        assert secret.lower().encode() not in file.read_bytes(), file
    assert (brain.get(old).state, brain.get(old).body) == (State.FORGOTTEN, None)
    with pytest.raises(RejectedError) as refusal:
        brain.revise.restore(old, reason="oh no")
    assert refusal.value.code == "erased"
    assert len(bodies(brain)) == 2
    assert brain.doctor().is_sound


def test_forgotten_memory_can_be_erased_by_its_id(brain: Brain, path: Path) -> None:
    id_ = stored(brain, "Zanzibar fell", kind="incident", detail=IncidentDetail(root_cause="Zaire"))
    brain.forget(id_, reason="wrong")
    brain.erase(id_, reason="leaked", confirm=1)
    for file in path.parent.glob(f"{path.name}*"):
        assert b"Zanzibar" not in file.read_bytes(), file
        assert b"Zaire" not in file.read_bytes(), file


@pytest.mark.of_a_file
def test_erase_during_a_read_reports_remaining_text_and_completes_when_repeated(
    path: Path,
) -> None:
    with open_brain(path, lock_timeout_s=0.5) as brain:
        id_ = stored(brain, "Zanzibar fell", kind="event")
        with brain.services.store.snapshot("default") as tx:
            assert tx.memories.counts()
            done = brain.erase(id_, reason="leaked", confirm=1)
        assert (done.status, done.receipt["file"]) == (Phase.DONE, 0)
        assert "repeat this call" in (done.hint or "")
        again = brain.erase(id_, reason="leaked")
    assert (again.count, again.receipt["file"], again.hint) == (0, 1, None)
    assert b"Zanzibar" not in path.read_bytes()


def test_only_an_admin_erases(brain: Brain) -> None:
    id_ = stored(brain, "Deploys happen at noon", kind="fact")
    writer = Brain(brain.services, replace(brain.caller, role=Role.WRITER))
    with pytest.raises(RejectedError) as refusal:
        writer.erase(id_, reason="x", confirm=1)
    assert refusal.value.code == "insufficient_role"
    assert brain.get(id_).body is not None


@pytest.mark.requirement("LC-18", "LC-10", "LC-04", "LC-03", "DM-03")
def test_pruning_removes_old_unread_memories_but_no_binding_ones(
    brain: Brain, clock: FakeClock
) -> None:
    done, open_ = (TaskDetail(status=status) for status in (TaskStatus.DONE, TaskStatus.OPEN))
    removed = [
        stored(brain, "Deploys happen at noon", kind="fact"),
        stored(brain, "The office in Antwerp opened", kind="event"),
        stored(brain, "Renew the certificate", kind="task", detail=done),
        stored(brain, "The disk was full", kind="incident"),
    ]
    retained = [
        stored(brain, "Never push to main", kind="rule"),
        stored(brain, "See you at five", kind="message"),
        stored(brain, "Rotate the keys of the shop", kind="task", detail=open_),
        stored(brain, "Zanzibar is an island", kind="fact"),
    ]
    brain.revise.pin(retained[-1])
    clock.move(timedelta(days=100))
    retained.append(stored(brain, "The kettle is blue", kind="fact"))
    preview = brain.prune(days=60)
    assert (preview.status, preview.count) == (Phase.PREVIEW, 4)
    assert {one.id for one in preview.items} == set(removed)
    assert len(bodies(brain, max_items=20)) == 9
    outcome = brain.prune(days=60, confirm=4)
    assert outcome.status is Phase.DONE
    assert {brain.get(id_).state for id_ in retained} == {State.ACTIVE}
    assert {brain.get(id_).state for id_ in removed} == {State.FORGOTTEN}
    assert brain.prune(days=60).count == 0
    brain.revise.restore(removed[0], reason="it was needed")
    assert brain.get(removed[0]).state is State.ACTIVE


@pytest.mark.requirement("LC-18")
def test_pruning_beyond_a_safety_limit_is_refused_with_the_limit(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for query, rule in [
        ({"days": 29}, "30"),
        ({"days": 10**14}, "36,500"),
        ({"limit": 51}, "50"),
        ({"kinds": ["rule"]}, "rule is never"),
    ]:
        with subtests.test(asked=query, rule=rule):
            with pytest.raises(RejectedError, match=rule) as refusal:
                brain.prune(**query)  # pyright: ignore[reportArgumentType]
            assert refusal.value.code == "prune_guard"


def test_pruning_removes_at_most_fifty_memories_and_the_longest_unused_first(
    brain: Brain, clock: FakeClock
) -> None:
    brain.remember([Draft(body=f"Thing x{n} happened", kind="event") for n in range(40)])
    clock.move(timedelta(days=1))
    brain.remember([Draft(body=f"Thing y{n} happened", kind="event") for n in range(40)])
    clock.move(timedelta(days=100))
    preview = brain.prune()
    assert (preview.count, preview.is_more) == (50, True)
    brain.prune(confirm=50)
    left = [body or "" for body in bodies(brain, max_items=100)]
    assert (len(left), all("y" in body for body in left)) == (30, True)
