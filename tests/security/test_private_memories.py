"""Private memories of an agent stay private in everything that jobs derive from them."""

from datetime import timedelta

import pytest
from commonbrain_evals.self_evaluation import Evaluate

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.limits import EVALUATED_MIN
from commonbrain.model.memory import Draft, Memory, State
from commonbrain.model.query import Feedback, FeedbackMark, RecallLogEntry
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role, Scope
from commonbrain.storage.interface import EntryFilter
from tests.asking import stored
from tests.working import a_worker

DEEP = "quokka"
"""In every text that is every_memory private, and in nothing else."""
EVENTS = (
    f"The checkout service of {DEEP} returned errors after the deploy of build 811.",
    f"We rolled the checkout service of {DEEP} back to build 810 after the errors.",
    f"The checkout service of {DEEP} lacked the variable STRIPE_REGION in build 811.",
)


@pytest.fixture
def bo(brain: Brain) -> Brain:
    """A writer with private memories of every sort, and a recall of them."""
    bo = as_writer(brain, "bo")
    bo.remember([Draft(body=text, kind="event", scope=Scope.PRIVATE) for text in EVENTS])
    for number in range(3):
        rule = f"Never push {DEEP} straight to the main branch" + " again" * number
        stored(bo, rule, kind="rule", scope="private", distinct_because="a test says so")
    bo.recall(f"what of {DEEP}")
    brain.services.journal.flush()
    return bo


def as_writer(brain: Brain, agent: str, role: Role = Role.WRITER) -> Brain:
    return Brain(brain.services, Caller(agent=agent, role=role, session=f"{agent}s"))


def did(brain: Brain, kind: str) -> str:
    """Run a job, and return all replies about it."""
    job = brain.jobs.run(kind)
    a_worker(brain).sweep()
    done = brain.jobs.show(job.id)
    assert done.state == "done", done.reason
    return f"{job} {done}"


def every_memory(brain: Brain) -> list[Memory]:
    """Read every memory of all agents."""
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        return list(tx.memories.get(tx.memories.page(after=0, limit=1000)).values())


def a_mark(entry: RecallLogEntry, memory: int) -> Feedback:
    return Feedback(
        trace_id=entry.id,
        memory_id=memory,
        mark=FeedbackMark.USEFUL,
        agent=entry.agent,
        session=entry.session,
        at=entry.asked_at,
    )


@pytest.mark.parametrize("kind", ["consolidate", "reflect", "atomize"])
def test_job_neither_reports_nor_derives_from_private_memories_of_others(
    brain: Brain, bo: Brain, kind: str
) -> None:
    private = {one.id for one in every_memory(brain)}
    cy = as_writer(brain, "cy")

    replies = did(cy, kind) + did(brain, kind) + str(cy.reflect())

    hidden = {ids.show(ids.MEMORY, id_) for id_ in private}
    assert DEEP not in replies
    assert not any(id_ in replies for id_ in hidden)
    assert {one.id for one in every_memory(brain)} == private

    assert DEEP not in did(bo, kind)
    assert {(one.scope, one.agent) for one in every_memory(brain)} == {(Scope.PRIVATE, "bo")}


def test_correction_of_a_private_memory_is_proposed_to_its_author_only(
    brain: Brain, bo: Brain
) -> None:
    cy = as_writer(brain, "cy")
    id_ = stored(bo, "The deploy window opens at 14:00.", kind="fact", scope="private")
    for session, end in (("s1", "."), ("s2", "!"), ("s3", " please.")):
        text = f"Deploys of {DEEP} must wait for the harbour master{end}"
        bo.acting_as(session=session).revise.annotate(id_, text)
    # A memory may become the team's; what was said of it before does not.
    shared = "The deploy window opens at 15:00."
    head = bo.revise.supersede(id_, shared, reason=f"{DEEP} said so.", scope="team").id
    assert cy.get(str(head))

    did(cy, "reflect")
    did(brain, "reflect")

    proposed = [one for one in every_memory(brain) if one.state is State.CANDIDATE]
    assert [one for one in proposed if one.scope is not Scope.PRIVATE] == []


def test_same_job_of_two_agents_runs_for_each_of_them(brain: Brain, bo: Brain) -> None:
    cy = as_writer(brain, "cy")
    for kind in ("consolidate", "reflect", "atomize", "eval"):
        jobs = [one.jobs.run(kind) for one in (bo, cy, cy)]

        assert [one.agent for one in jobs] == ["bo", "cy", "cy"]
        assert jobs[1].id == jobs[2].id != jobs[0].id
        with pytest.raises(NotFoundError):
            cy.jobs.show(jobs[0].id)
    assert {one.agent for one in cy.jobs().jobs} == {"cy"}


def test_evaluation_of_a_writer_uses_its_own_queries_only(brain: Brain, bo: Brain) -> None:
    # What helped may be the team's; what was asked for it is not.
    everybodys = ids.parse(ids.MEMORY, stored(brain, "The kettle is blue.", kind="fact"))
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        [entry] = tx.recall_log.latest(EntryFilter(agent="bo"), limit=1)
        tx.recall_log.mark([a_mark(entry, everybodys)])
    brain.remember(
        [
            Draft(body=f"Somebody put vessel{number} of shelf{number} into {place}.", kind="event")
            for number, place in enumerate(["a kitchen cupboard", "the red attic"] * EVALUATED_MIN)
        ]
    )
    now = brain.services.clock.now() + timedelta(seconds=1)

    def questions(who: Brain) -> str:
        return str(
            Evaluate(who.services, who.caller)
            .prepare(now, questions=EVALUATED_MIN, seed=0)
            .questions
        )

    assert DEEP in questions(bo)
    assert DEEP not in questions(as_writer(brain, "cy"))


@pytest.mark.parametrize("role", [Role.READER, Role.WRITER])
def test_operations_of_admins_are_denied_to_readers_and_writers(
    brain: Brain, bo: Brain, role: Role
) -> None:
    own = bo.recall("checkout service").trace_id
    export = brain.jobs.run("export")
    a_worker(brain).sweep()
    cy = as_writer(brain, "cy", role)

    assert cy.recalls().recalls == ()
    assert cy.recall(DEEP).items == ()
    assert [one.considered for one in cy.recalls().recalls] == [0]
    for missing in (lambda: cy.recalls.one(own), lambda: cy.jobs.archive(export.id)):
        with pytest.raises(NotFoundError):
            missing()
    for refused in (
        lambda: cy.recalls(agent="bo"),
        lambda: cy.jobs.run("export"),
        lambda: cy.jobs.run("train_salience"),
        cy.spaces,
        lambda: cy.spaces.compare("minilm"),
    ):
        with pytest.raises(RejectedError):
            refused()
