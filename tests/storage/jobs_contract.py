"""What every store promises of jobs: none is lost, and one worker at a time has one.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model import ids
from commonbrain.model.jobs import Job, JobError, JobState
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role, Trust
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import LATER, OpenStore

FAULT = JobError(code="embedder_down", message="It did not answer.")
BO = Caller(
    agent="bo",
    session="s1",
    project="tea",
    role=Role.WRITER,
    trust_default=Trust.UNTRUSTED_WEB,
    trust_ceiling=Trust.USER_CLAIM,
)


def a_job(id_: int, **more: Any) -> Job:  # noqa: ANN401
    """Make a job as bo would ask for it at noon."""
    plain = Job(
        id=id_,
        kind="embed",
        caller=BO,
        given={"limit": 3, "project": None},
        due_at=NOON,
        reached={},
        created_at=NOON,
    )
    return replace(plain, **more)


def given(store: Store, *jobs: Job) -> None:
    """Put jobs there, in one transaction."""
    with store.begin(LOCAL_TENANT) as tx:
        assert [tx.jobs.add(one) for one in jobs] == [True] * len(jobs)


def moved(store: Store, *states: Job) -> bool:
    """Bring a job from one state to another, in a transaction of its own."""
    before, after = states
    with store.begin(LOCAL_TENANT) as tx:
        return tx.jobs.move(before, after)


def read(store: Store, id_: int) -> Job | None:
    """Give a job as a new transaction sees it."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return renamed(tx, tx.jobs.get(id_))


def renamed(tx: Transaction, job: Job | None) -> Job | None:
    """Give the tenant of a transaction the name that the test has for it."""
    if job is None:
        return None
    assert job.caller.tenant == tx.work.tenant
    return replace(job, caller=replace(job.caller, tenant=LOCAL_TENANT))


def due(store: Store, *kinds: str, after: timedelta = timedelta()) -> list[int]:
    """List whose turn it is a while after noon."""
    with store.snapshot(LOCAL_TENANT) as tx:
        jobs = tx.jobs.due(kinds or ("embed",), now=NOON + after, limit=10)
    return [one.id for one in jobs]


class JobsContract:
    """The promises of jobs; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    def test_job_is_read_as_it_was_written(self, store: Store) -> None:
        queued = a_job(1, key="embed")
        running = queued.claimed("w1", until=LATER, now=NOON)
        progressed = running.moved(0.5, {"after": 7})
        given(store, queued)

        assert read(store, 1) == queued
        for before, after in (
            (queued, running),
            (running, progressed),
            (progressed, progressed.failed(FAULT, again_at=LATER)),
        ):
            assert moved(store, before, after)
            assert read(store, 1) == after
        assert read(store, 2) is None

    def test_job_of_a_failed_transaction_does_not_exist(self, store: Store) -> None:
        with pytest.raises(ValueError, match="no"), store.begin(LOCAL_TENANT) as tx:
            tx.jobs.add(a_job(1))
            raise ValueError("no")

        assert read(store, 1) is None

    def test_only_one_unfinished_job_can_have_a_key(self, store: Store) -> None:
        first = a_job(1, key="embed")
        given(store, first)
        with store.begin(LOCAL_TENANT) as tx:
            assert not tx.jobs.add(a_job(2, key="embed"))
            assert renamed(tx, tx.jobs.keyed("embed")) == first
            assert tx.jobs.keyed("other") is None
            assert tx.jobs.add(a_job(3))
            assert not tx.jobs.add(a_job(3))

        assert moved(store, first, first.done({"count": 1}, now=NOON))
        given(store, a_job(4, key="embed"))
        with store.snapshot(LOCAL_TENANT) as tx:
            assert renamed(tx, tx.jobs.keyed("embed")) == a_job(4, key="embed")

    def test_due_jobs_are_listed_by_their_due_time(self, store: Store) -> None:
        given(
            store, a_job(1, due_at=LATER), a_job(2), a_job(3, due_at=NOON - timedelta(hours=1)),
            a_job(4, kind="atomize"), a_job(5, state=JobState.DEAD), a_job(6, kind="unknown"),
        )  # fmt: skip

        assert due(store) == [3, 2]
        assert due(store, after=timedelta(hours=1)) == [3, 2, 1]
        assert due(store, "embed", "atomize") == [3, 2, 4]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert [one.id for one in tx.jobs.due(["embed"], now=NOON, limit=1)] == [3]

    def test_job_is_claimed_by_only_one_worker_until_its_lease_ends(self, store: Store) -> None:
        queued = a_job(1)
        given(store, queued)
        claimed = queued.claimed("w1", until=LATER, now=NOON)

        assert moved(store, queued, claimed)
        assert not moved(store, queued, queued.claimed("w2", until=LATER, now=NOON))
        assert due(store) == []
        assert due(store, after=timedelta(hours=1)) == [1]

    def test_worker_that_lost_a_job_cannot_change_it(self, store: Store) -> None:
        queued = a_job(1)
        given(store, queued)
        lost = queued.claimed("w1", until=LATER, now=NOON)
        taken = lost.claimed("w2", until=LATER + timedelta(hours=1), now=LATER)
        assert moved(store, queued, lost)
        assert moved(store, lost, taken)

        for after in (
            lost.moved(0.9, {"after": 9}),
            lost.renewed(LATER + timedelta(hours=2)),
            lost.done({}, now=LATER),
            lost.buried(FAULT, now=LATER),
            lost,
        ):
            assert not moved(store, lost, after)
        assert read(store, 1) == taken

    def test_renewed_lease_is_not_taken_over_and_its_holder_can_finish_the_job(
        self, store: Store
    ) -> None:
        queued = a_job(1)
        given(store, queued)
        claimed = queued.claimed("w1", until=LATER, now=NOON)
        assert moved(store, queued, claimed)
        renewed = claimed.renewed(LATER + timedelta(hours=1))
        assert moved(store, claimed, renewed)

        assert not moved(store, claimed, claimed.claimed("w2", until=LATER, now=LATER))
        assert moved(store, claimed, claimed.moved(0.5, {}))
        assert moved(store, claimed, claimed)
        assert moved(store, claimed, claimed.done({"count": 2}, now=LATER))
        ended = read(store, 1)
        assert ended is not None
        assert (ended.state, ended.result) == (JobState.DONE, {"count": 2})
        assert not moved(store, claimed, claimed.done({}, now=LATER))

    def test_jobs_are_listed_newest_first_and_counted_by_state(self, store: Store) -> None:
        ann = Caller(agent="ann")
        given(
            store, a_job(1), a_job(2, kind="atomize"), a_job(3, caller=ann),
            a_job(4, state=JobState.DEAD, fault=FAULT, finished_at=LATER),
        )  # fmt: skip

        with store.snapshot(LOCAL_TENANT) as tx:

            def listed(before: int | None = None, **conditions: Any) -> list[int]:  # noqa: ANN401
                jobs = tx.jobs.listed(JobFilter(**conditions), before=before, limit=3)
                return [one.id for one in jobs]

            assert listed() == [4, 3, 2]
            assert listed(2) == [1]
            assert listed(state=JobState.DEAD) == [4]
            assert listed(kind="atomize") == [2]
            assert listed(agent="bo") == [4, 2, 1]
            assert listed(key="none") == []
            assert tx.jobs.counts() == {JobState.QUEUED: 3, JobState.DEAD: 1}

    def test_progress_of_jobs_is_listed_by_session_and_time(self, store: Store) -> None:
        first, second, third = (ids.make_id(NOON + timedelta(days=day), 0) for day in range(3))
        ann, other = Caller(agent="ann", session="s1"), Caller(agent="ann", session="s2")
        given(
            store, a_job(first, caller=ann, reached={"at": 1}),
            a_job(second, caller=other, reached={"at": 2}),
            a_job(third, caller=ann, reached={"at": 3}),
        )  # fmt: skip
        with store.snapshot(LOCAL_TENANT) as tx:
            of_session = JobFilter(session="s1")
            assert tx.jobs.progress(of_session, limit=9) == [{"at": 3}, {"at": 1}]
            assert tx.jobs.progress(of_session, limit=1) == [{"at": 3}]
            since_second = JobFilter(session="s1", since=NOON + timedelta(days=1))
            assert tx.jobs.progress(since_second, limit=9) == [{"at": 3}]

    def test_last_start_and_end_of_a_kind_of_job_are_returned(self, store: Store) -> None:
        over = {"state": JobState.DONE, "finished_at": LATER}
        given(store, a_job(1, **over), a_job(2, key="embed:all"), a_job(3, kind="atomize"))

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.jobs.newest("embed") == LATER
            assert tx.jobs.newest("embed", key="embed:all") == NOON
            assert tx.jobs.newest("atomize") == NOON
            assert tx.jobs.newest("reword") is None

    def test_old_jobs_are_dropped_and_dead_letters_are_dropped_later(self, store: Store) -> None:
        def ended(id_: int, state: JobState) -> Job:
            return a_job(id_, state=state, finished_at=NOON)

        given(
            store, a_job(1), ended(2, JobState.DONE), ended(3, JobState.CANCELLED),
            ended(4, JobState.DEAD), a_job(5, state=JobState.DONE, finished_at=LATER),
        )  # fmt: skip
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.jobs.drop(before=LATER, dead_before=NOON, limit=1) == 1
            assert tx.jobs.drop(before=LATER, dead_before=NOON, limit=9) == 1
            assert tx.jobs.drop(before=LATER, dead_before=NOON, limit=9) == 0
            assert [one.id for one in tx.jobs.listed(JobFilter(), before=None, limit=9)] == [
                5, 4, 1,
            ]  # fmt: skip
            assert tx.jobs.drop(before=NOON, dead_before=LATER, limit=9) == 1
            assert tx.jobs.get(4) is None

    def test_job_is_not_visible_to_another_tenant(self, store: Store) -> None:
        given(store, a_job(1, key="embed"))

        with store.begin("other") as tx:
            assert tx.jobs.get(1) is None
            assert tx.jobs.keyed("embed") is None
            assert tx.jobs.due(["embed"], now=LATER, limit=9) == []
            assert not tx.jobs.move(a_job(1), a_job(1).cancelled(NOON))
            assert tx.jobs.counts() == {}

    def test_tenants_are_listed_for_a_worker(self, store: Store) -> None:
        assert store.tenants() == [LOCAL_TENANT]
