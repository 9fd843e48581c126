"""What one session leaves to the next."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.coordination.handoff import last_handoffs
from commonbrain.coordination.session_views import SessionResponse
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import EpisodeDetail, Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.asking import bodies, stored

SUMMARY = "Moved the parser to a file of its own"


def left(reply: SessionResponse) -> str:
    assert reply.outcome is not None
    assert reply.outcome.status is ItemStatus.STORED, reply.outcome
    return reply.outcome.id or ""


def last(brain: Brain, project: str | None = None) -> Memory | None:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        now = brain.services.clock.now()
        handoffs = last_handoffs(tx, brain.caller, project=project, now=now)
        return handoffs[0] if handoffs else None


def last_id(brain: Brain, project: str | None = None) -> str | None:
    matches = last(brain, project)
    return ids.show(ids.MEMORY, matches.id) if matches else None


@pytest.mark.requirement("WP-14", "SE-12", "DM-66")
def test_handoff_is_an_episode_of_its_session_that_recall_returns(
    brain: Brain, clock: FakeClock
) -> None:
    ann = brain.acting_as(session="s1", project="api")
    ann.session.task("parsing")
    began = clock.now()
    clock.move(timedelta(hours=2))
    id_ = left(
        ann.session.handoff(
            SUMMARY, next_steps=["bench the lexer"], blockers=["the CI is red"], context="see docs"
        )
    )
    view = brain.get(id_)
    assert (view.kind, view.label, view.session) == (Kind.EPISODE, "handoff", "s1")
    assert (view.project, view.source_ref) == ("api", "session:s1")
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        [memory] = tx.memories.get([ids.parse(ids.MEMORY, id_)]).values()
    assert memory.detail == EpisodeDetail(started_at=began, ended_at=clock.now())
    for query in ("parser file", "bench lexer", "what is red", "docs"):
        assert id_ in {item.id for item in brain.recall(query).items}


@pytest.mark.requirement("WP-14")
def test_later_handoff_supersedes_the_earlier_one_of_the_same_session(brain: Brain) -> None:
    ann = brain.acting_as(session="s1")
    first = left(ann.session.handoff(SUMMARY))
    other = left(brain.acting_as(session="s2").session.handoff(SUMMARY))
    assert (again := ann.session.handoff(SUMMARY).outcome)
    assert (again.status, again.id) == (ItemStatus.EXISTS, first)
    second = left(ann.session.handoff("Benched the parser too"))
    assert brain.get(first).state is State.SUPERSEDED
    assert brain.get(first).current_id == second
    assert brain.get(other).state is State.ACTIVE


@pytest.mark.requirement("SE-09")
def test_ending_a_session_with_a_summary_stores_a_handoff(brain: Brain) -> None:
    ann = brain.acting_as(session="s1")
    ann.session.task("parsing")
    assert left(ann.session.end(SUMMARY, next_steps=["bench it"]))
    assert brain.acting_as(session="s2").session.list().sessions == ()
    assert brain.acting_as(session="s3").session.end().outcome is None


def test_refused_handoff_leaves_the_session_open(brain: Brain) -> None:
    ann = brain.acting_as(session="s1")
    ann.session.task("parsing")
    reply = ann.session.end("The key is AKIA" + "IOSFODNN7EXAMPLQ")
    assert reply.outcome is not None
    assert (reply.outcome.status, reply.outcome.code) == (ItemStatus.REJECTED, "secret_detected")
    with pytest.raises(RejectedError, match="more than the 2,000"):
        ann.session.end("x" * 2001)
    with pytest.raises(InvalidInputError, match="summary"):
        ann.session.end(next_steps=["bench it"])
    assert len(brain.session.list().sessions or ()) == 1
    assert last(brain) is None


def test_handoff_belongs_to_a_session_and_needs_the_right_to_write(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="needs a session"):
        brain.session.handoff(SUMMARY)
    reader = Brain(
        brain.services,
        type(brain.caller)(agent="eve", role=Role.READER, session="s9"),
    )
    with pytest.raises(RejectedError, match="reader"):
        reader.session.handoff(SUMMARY)


@pytest.mark.requirement("WP-14")
def test_handoff_does_not_repeat_recalled_memories(brain: Brain) -> None:
    stored(brain, "The kettle is blue", kind="fact")
    evidence = brain.recall("kettle").evidence
    id_ = left(brain.acting_as(session="s1").session.handoff(SUMMARY, context=evidence))
    assert brain.get(id_).body == SUMMARY


def test_latest_handoff_is_the_newest_of_the_project_by_any_agent(
    brain: Brain, clock: FakeClock
) -> None:
    def at(session: str, project: str | None = None, agent: str = "ann") -> Brain:
        clock.move(timedelta(minutes=1))
        return brain.acting_as(agent=agent, session=session, project=project)

    old = left(at("s1", "api").session.handoff(SUMMARY))
    left(at("s2", "web").session.handoff("Painted the page"))
    bob = at("s3", "api", agent="bob")
    assert last_id(bob, "api") == old
    handoff_of_bob = left(bob.session.handoff("Bob went on from there"))
    assert last_id(bob, "api") == handoff_of_bob
    assert last_id(at("s4", "api"), "api") == handoff_of_bob
    wide = left(at("s5").session.handoff("Nothing in particular"))
    assert last_id(at("s6"), "api") == last_id(at("s6")) == wide
    brain.forget(wide, reason="it says nothing")
    assert last_id(at("s6"), "api") == handoff_of_bob
    assert last_id(at("s6"), "cli") is None


def test_private_handoff_of_another_agent_is_not_shown(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob", session="s1")
    stored(bob, SUMMARY, kind="episode", label="handoff", scope="private")
    assert last(brain) is None
    assert last(bob.acting_as(session="s2")) is not None


@pytest.mark.requirement("WP-14")
def test_marks_in_a_handoff_become_separate_memories(brain: Brain) -> None:
    ann = brain.acting_as(session="s1")
    id_ = left(ann.session.handoff(f"{SUMMARY}\n@decision The parser has no regex in it"))
    assert "The parser has no regex in it" in bodies(brain, "parser regex", kinds=["fact"])
    [fact] = brain.recall("parser regex", kinds=["fact"]).items
    provenance = brain.get(fact.id, views=["provenance"]).provenance
    assert provenance is not None
    assert provenance.derived_from == (id_,)


def test_undo_and_export_preserve_handoffs_and_skills(tmp_path: Path) -> None:
    with (
        a_brain(tmp_path / "one.db") as one,
        a_brain(tmp_path / "two.db", random_source=SeededRandom(9)) as two,
    ):
        bob = one.acting_as(agent="bob", session="s1")
        first = left(bob.session.handoff(SUMMARY))
        second = left(bob.session.handoff("Benched it too", next_steps=["ship it"]))
        trigger = {"name": "release", "keywords": ["deploy"], "projects": ["api"]}
        skill = stored(bob, "Announce it first", kind="rule", skill=trigger)
        one.export(tmp_path / "all.jsonl")
        two.merge(tmp_path / "all.jsonl")
        for brain in (one, two):
            assert last_id(brain) == second
            assert brain.get(second).detail["started_at"] is not None
            assert brain.get(first).current_id == second
            assert [x.id for x in brain.skills.firing("deploy", project="api").skills] == [skill]
        preview = one.undo(session="s1", reason="mistaken")
        one.undo(session="s1", reason="mistaken", confirm=preview.count)
        assert last(one) is None
        assert one.skills().skills == ()
