"""Upkeep: what time did is written down, audited, taken back by undo, and never the other way."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import JOB_LEASE_S, MAINTAINED_AT_ONCE
from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.storage.schema.memories import memories
from commonbrain.testing.builders import FakeClock, a_brain, a_memory
from commonbrain.text.search_words import extra_words
from tests.asking import bodies, stored
from tests.jobs.test_jobs_again import killed_at
from tests.storage.store_steps import lexical, put, query_scope
from tests.tenant_rows import set_policy
from tests.working import a_worker

DAY = timedelta(days=1)
WHY = "because a test says so"


def maintained(brain: Brain, **given: object) -> JobView:
    """Run upkeep to its end."""
    query = brain.jobs.run("maintain", given)
    a_worker(brain, kinds=frozenset({"maintain"})).sweep()
    done = brain.jobs.show(query.id)
    assert done.state == "done", done.reason
    return done


def counted(brain: Brain, **given: object) -> dict[str, object]:
    """Give what a run made of memories, without what there was none of."""
    reply = maintained(brain, **given).result or {}
    return {name: reply[name] for name in reply if reply[name] and name not in {"jobs", "events"}}


def test_preview_of_maintenance_does_not_postpone_it(brain: Brain, clock: FakeClock) -> None:
    brain.remember("The kettle is in the blue cupboard", kind="fact")
    a_worker(brain).schedule()
    a_worker(brain).sweep()
    clock.move(DAY)
    maintained(brain, dry_run=True)
    brain.jobs.run("reflect", {"project": "tea"})
    a_worker(brain).schedule()
    query = [one for one in brain.jobs(state="queued").jobs if not one.given]
    assert [one.kind for one in query] == ["maintain"]


def test_expired_memory_leaves_every_index_and_its_dependents_need_review(
    brain: Brain, clock: FakeClock
) -> None:
    lock = stored(brain, "The release branch is locked", kind="fact", ttl_s=60)
    made = stored(brain, "Somebody opened a door", kind="event", expires_at="2026-03-03")
    dependent = stored(brain, "Merge nothing this week", kind="rule", depends_on=[lock])
    derived = stored(brain, "How the doors are used", derived_from=[made])
    clock.move(2 * DAY)

    assert counted(brain) == {"expired": 2, "affected": 1}
    assert brain.get(lock, bump=False).state is State.EXPIRED
    assert bodies(brain, "release branch locked", bump=False) == []
    assert "Needs review" in (brain.get(dependent, bump=False).banner or "")
    assert brain.get(derived, bump=False).banner is None
    reply = brain.get(lock, views=["history"], bump=False).history or ()
    assert [(one.agent, one.action) for one in reply] == [("ann", "create"), ("upkeep", "expire")]
    assert counted(brain) == {}
    assert brain.doctor().is_sound

    # It can be had back, and then it holds, without an end.
    brain.revise.restore(lock, reason=WHY)
    assert counted(brain) == {}
    assert "The release branch is locked" in bodies(brain, "release branch locked", bump=False)


@pytest.mark.requirement("JB-09", "DM-07")
def test_untouched_task_long_past_its_due_date_is_stale_until_it_is_moved(
    brain: Brain, clock: FakeClock
) -> None:
    due = brain.services.clock.now() + DAY
    idle = stored(brain, "Paint the shed", kind="task", due_at=due)
    moved = stored(brain, "Mend the gutter", kind="task", due_at=due)
    binding = stored(brain, "Rotate the keys", kind="task", due_at=due, must_ack=True)
    clock.move(10 * DAY)
    brain.revise.status(moved, "blocked")
    clock.move(6 * DAY)

    assert counted(brain) == {"stale": 1}
    states = {one.id: one.detail["status"] for one in map(brain.get, (idle, moved, binding))}
    assert states == {idle: "stale", moved: "blocked", binding: "open"}
    brain.revise.status(idle, "open")
    assert counted(brain) == {}


@pytest.mark.requirement("LC-15", "LC-12")
def test_policy_of_a_tenant_expires_memories_by_kind_label_and_scope(
    brain: Brain, clock: FakeClock
) -> None:
    log = stored(brain, "Somebody opened a door", kind="event", label="log")
    saved = stored(brain, "Somebody left the house", kind="event")
    pinned = stored(brain, "A fire broke out in the kitchen", kind="event", label="log")
    brain.revise.pin(pinned)
    episode = stored(brain, "All about the kitchen stove", kind="episode")
    set_policy(
        brain,
        retention=(
            "kind=event label=log scope=team days=30",
            "kind=episode days=30 action=archive",
        ),
    )
    clock.move(29 * DAY)
    assert counted(brain) == {}
    clock.move(DAY)

    preview = brain.maintain.preview()
    assert dict(preview.counts) == {"forgotten": 1, "archived": 1}
    [example] = preview.examples["forgotten"]
    assert (example.id, example.reason.split(" ")[1]) == (log, "kind=event")
    assert counted(brain, dry_run=True) == {"forgotten": 1, "archived": 1}
    assert brain.get(log, bump=False).state is State.ACTIVE

    since = clock.now()
    assert counted(brain) == {"forgotten": 1, "archived": 1}
    states = [brain.get(id_, bump=False).state for id_ in (log, saved, pinned, episode)]
    assert states == [State.FORGOTTEN, State.ACTIVE, State.ACTIVE, State.ARCHIVED]
    assert bodies(brain, "kitchen stove", bump=False)[0] is not None

    # An over-eager policy can be taken back, as one change.
    clock.move(timedelta(minutes=1))
    taken = brain.undo(agent="upkeep", since=since, reason=WHY)
    brain.undo(agent="upkeep", since=since, reason=WHY, confirm=taken.count)
    assert [brain.get(id_, bump=False).state for id_ in (log, episode)] == [State.ACTIVE] * 2
    set_policy(brain, retention=())
    assert counted(brain) == {}


def test_only_an_admin_starts_upkeep(brain: Brain) -> None:
    writer = Brain(brain.services, Caller(agent="bo", role=Role.WRITER))
    with pytest.raises(RejectedError):
        writer.jobs.run("maintain")


@pytest.mark.requirement("LC-20", "LC-03")
def test_maintenance_revives_no_memory_and_does_not_change_rules(
    brain: Brain, clock: FakeClock
) -> None:
    rule = stored(brain, "Never push to main", kind="rule")
    old = stored(brain, "The kettle is blue", kind="fact")
    brain.revise.supersede(old, "The kettle is green", reason=WHY)
    removed = stored(brain, "The cups are yellow", kind="fact")
    brain.forget(removed, reason=WHY)
    clock.move(4000 * DAY)
    assert counted(brain) == {}
    states = [brain.get(id_, bump=False).state for id_ in (rule, old, removed)]
    assert states == [State.ACTIVE, State.SUPERSEDED, State.FORGOTTEN]


@pytest.mark.requirement("LC-16", "WP-32")
def test_dormant_claim_loses_confidence_until_it_is_used(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, "The kettle in the kitchen is blue", kind="fact")
    fresh = brain.recall("kettle kitchen", bump=False).items[0].confidence
    clock.move(24 * DAY)
    stale = brain.recall("kettle kitchen", bump=False).items[0].confidence
    assert stale == pytest.approx(fresh * 2 / 3, abs=1e-3)
    brain.get(id_)
    brain.services.journal.flush()
    assert brain.recall("kettle kitchen", bump=False).items[0].confidence == fresh


@pytest.mark.requirement("JB-09", "DM-66", "CL-07")
def test_maintenance_runs_once_a_day_under_its_own_agent_name(
    brain: Brain, clock: FakeClock
) -> None:
    worker = a_worker(brain)
    for days, jobs in ((0, 1), (0.5, 1), (0.6, 2)):
        clock.move(days * DAY)
        worker.schedule()
        worker.sweep()
        assert [one.agent for one in brain.jobs(kind="maintain").jobs] == ["upkeep"] * jobs


def test_memory_without_a_vector_is_embedded_by_a_job_of_maintenance(brain: Brain) -> None:
    id_ = stored(brain, "The kettle is blue", kind="fact")
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        [memory] = tx.memories.get(tx.memories.page(after=0, limit=1)).values()
        tx.index.drop(memory.id)
        tx.index.put(memory, None)
    assert counted(brain) == {"unembedded": 1}
    assert [one.kind for one in brain.jobs(state="queued").jobs] == ["embed"]
    a_worker(brain).sweep()
    assert brain.status().embedding_pending == 0
    assert brain.get(id_, bump=False).state is State.ACTIVE


def test_memory_missing_from_the_full_text_index_is_indexed_again(brain: Brain) -> None:
    stored(brain, "The kettle is blue", kind="fact")
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        [memory] = tx.memories.get(tx.memories.page(after=0, limit=1)).values()
        tx.index.drop(memory.id)
    assert counted(brain) == {"reworded": 1, "unembedded": 1}
    assert lexical(brain.services.store, "kettle") == [memory.id]
    assert counted(brain) == {"unembedded": 1}


def test_text_stored_by_an_older_program_is_read_by_maintenance(brain: Brain) -> None:
    stored(brain, "The kettle is blue", kind="fact")
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        tx.work.connection.execute(update(memories).values(reading=None))
        unread = tx.memories.unread(after=0, limit=9)
    assert len(unread) == 1
    assert counted(brain) == {"reread": 1}
    assert counted(brain) == {}


@pytest.mark.requirement("RT-41")
def test_words_that_an_older_program_did_not_split_are_indexed_by_maintenance(brain: Brain) -> None:
    stored(brain, "发布用\U0001f680标记", kind="fact")
    stored(brain, "Releases are marked", kind="fact")
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        tx.work.connection.execute(update(memories).values(reading='[2,0,0,[],"",""]'))
        # Only what is split otherwise is indexed again: this word stands for the old index.
        for hit in tx.memories.newest(query_scope(), limit=2):
            tx.index.reword(a_memory(hit.id, "old"))
    [word] = extra_words("\U0001f680")
    assert counted(brain) == {"reread": 2}
    [spaced] = lexical(brain.services.store, "发布")
    assert lexical(brain.services.store, word) == [spaced]
    [unchanged] = lexical(brain.services.store, "old")
    assert unchanged != spaced


def test_maintenance_killed_after_any_step_changes_each_memory_once(
    path: Path, clock: FakeClock
) -> None:
    """Three pages, with a death after each of the first two."""
    count, lived = 2 * MAINTAINED_AT_ONCE + 1, clock.now() + DAY
    with a_brain(path, clock=clock) as brain:
        for number in range(1, count + 1):
            one = a_memory(number, f"Number {number}", kind=Kind.EVENT, expires_at=lived)
            put(brain.services.store, one)
        clock.move(2 * DAY)
        query = brain.jobs.run("maintain")
        for _ in range(2):
            killed_at(brain, 1)
            clock.move(timedelta(seconds=JOB_LEASE_S))
        a_worker(brain, kinds=frozenset({"maintain"})).sweep()
        done = brain.jobs.show(query.id)
        assert (done.state, (done.result or {})["expired"]) == ("done", count)
        assert brain.status().by_state == {State.EXPIRED: count}
        with brain.services.store.snapshot(LOCAL_TENANT) as tx:
            reply = tx.changes.of(list(range(1, count + 1)))
        assert [one.action for one in reply if one.action != "create"] == ["expire"] * count
        assert brain.doctor().is_sound
