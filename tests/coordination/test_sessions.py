from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import PROBES_MAX, TASK_CHARS_MAX
from commonbrain.model.sessions import Ending, Process
from commonbrain.storage.interface import Heartbeat
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, FakeClock, a_brain
from tests.at_work import (
    at_work,
    boots,
    ending_of,
    heard,
    processes_of,
    seen,
    shown,
    stored_session,
)
from tests.secrets import SECRETS

DAY = timedelta(days=1)


@pytest.mark.requirement("SE-16", "DM-13")
def test_other_active_sessions_are_listed_by_project_and_agent(brain: Brain) -> None:
    for key, agent, project in (("a", "ann", "api"), ("b", "bob", "api"), ("w", "bob", "web")):
        boots(brain.acting_as(agent=agent, session=key), project=project)
    ann = brain.acting_as(session="a")

    assert set(seen(ann)) == {"b", "w"}
    assert seen(ann.acting_as(project="api")) == ["b"]
    assert [one.session for one in ann.session.list(project="web").sessions or ()] == ["w"]
    assert seen(brain.acting_as(agent="ann", session="b", project="api")) != []
    assert [one.session for one in brain.session.list(agent="ann").sessions or ()] == ["a"]


@pytest.mark.requirement("SE-09", "SE-24")
def test_session_shows_its_task_until_it_ends(brain: Brain, clock: FakeClock) -> None:
    ann = brain.acting_as(session="k1")
    boots(ann, task="Read the log")
    clock.move(timedelta(minutes=2))
    reply = ann.session.task("  Mend the   parser ")

    assert (reply.session, reply.task) == ("k1", "Mend the parser")
    [peer] = shown(brain)
    assert (peer.task, peer.heartbeat_age_s) == ("Mend the parser", 0)

    assert ann.session.end().session == "k1"
    assert seen(brain) == []
    assert ending_of(brain, "k1") is Ending.ENDED


def test_empty_or_too_long_task_of_a_session_is_refused(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for text in ("", "  ", "x" * (TASK_CHARS_MAX + 1)):
        with subtests.test(text=text), pytest.raises(InvalidInputError):
            brain.acting_as(session="k1").session.task(text)


def test_session_task_with_a_secret_is_refused(brain: Brain) -> None:
    with pytest.raises(RejectedError):
        brain.acting_as(session="k1").session.task(f"Use {next(iter(SECRETS.values()))[0]} for it")


def test_caller_without_a_session_can_neither_end_one_nor_set_its_task(brain: Brain) -> None:
    with pytest.raises(InvalidInputError):
        brain.session.end()
    with pytest.raises(InvalidInputError):
        brain.session.task("Mend the parser")


def test_silent_session_is_shown_as_idle_until_its_next_call(
    brain: Brain, clock: FakeClock
) -> None:
    heard(at_work(brain, "k1"))
    clock.move(timedelta(minutes=5, seconds=1))

    [peer] = shown(brain)
    assert (peer.is_idle, peer.heartbeat_age_s) == (True, 301)

    heard(at_work(brain, "k1"))
    [peer] = shown(brain)
    assert not peer.is_idle


@pytest.mark.requirement("SE-08", "SE-29")
def test_session_ends_with_the_process_of_its_client(brain: Brain, clock: FakeClock) -> None:
    processes = processes_of(brain)
    client, other = processes.start(7), processes.start(8)
    boots(at_work(brain, "k1", process=client))
    boots(at_work(brain, "k2", process=other))
    clock.move(30 * DAY)
    assert set(seen(brain)) == {"k1", "k2"}

    processes.kill(client)
    assert seen(brain) == ["k2"]
    assert ending_of(brain, "k1") is Ending.DEAD


def test_reused_process_number_is_no_sign_of_an_active_session(brain: Brain) -> None:
    processes = processes_of(brain)
    client = processes.start(7)
    boots(at_work(brain, "k1", process=client))
    processes.kill(client)
    processes.running.append(replace(client, created_at=client.created_at + DAY))

    assert seen(brain) == []


@pytest.mark.requirement("SE-29")
def test_session_of_another_host_ends_after_a_day_of_silence(
    brain: Brain, clock: FakeClock
) -> None:
    elsewhere = Process(host="there", pid=7, created_at=NOON)
    boots(at_work(brain, "k1"))
    boots(at_work(brain, "k2", process=elsewhere))
    clock.move(DAY - timedelta(seconds=1))
    assert set(seen(brain)) == {"k1", "k2"}

    clock.move(timedelta(seconds=1))
    assert seen(brain) == []
    assert ending_of(brain, "k1") is ending_of(brain, "k2") is Ending.SILENT
    assert processes_of(brain).checks == 0


@pytest.mark.requirement("SE-29")
def test_liveness_checks_of_sessions_are_bounded_and_reach_all(
    brain: Brain, clock: FakeClock
) -> None:
    processes = processes_of(brain)
    for number in range(2 * PROBES_MAX + 1):
        boots(at_work(brain, f"k{number}", process=processes.start(100 + number)))
    processes.running.clear()
    processes.checks = 0

    left: list[int] = []
    for _ in range(3):
        clock.move(timedelta(seconds=1))
        left.append(len(seen(brain)))

    assert left == [PROBES_MAX + 1, 1, 0]
    assert processes.checks == 2 * PROBES_MAX + 1


def test_boot_ends_sessions_of_dead_processes(brain: Brain) -> None:
    processes = processes_of(brain)
    client = processes.start(7)
    boots(at_work(brain, "k1", process=client))
    processes.kill(client)
    boots(at_work(brain, "k2"))

    assert ending_of(brain, "k1") is Ending.DEAD


@pytest.mark.requirement("SE-10")
def test_reboot_of_the_same_agent_folder_and_process_ends_the_previous_session(
    brain: Brain,
) -> None:
    client = processes_of(brain).start(7)
    boots(at_work(brain, "k1", process=client))
    boots(at_work(brain, "web", process=client, cwd="/home/ann/web"))
    boots(at_work(brain.acting_as(agent="bob"), "k1", process=client))
    boots(at_work(brain, "k2", process=client))

    assert ending_of(brain, "k1") is Ending.REBOOTED
    assert ending_of(brain, "web") is None
    assert ending_of(brain, "k1", agent="bob") is None
    heard(at_work(brain, "k1", process=client))
    assert ending_of(brain, "k1") is Ending.REBOOTED


@pytest.mark.requirement("SE-10", "SE-35")
def test_second_boot_of_a_program_ends_its_earlier_session(brain: Brain) -> None:
    first = brain.boot("api", "Read the log")
    other = brain.acting_as(agent="bob").boot("api")
    named = brain.acting_as(session="k1").boot("api")
    second = brain.boot("api", "Mend the parser")

    assert {one.session for one in second.siblings} == {named.session, other.session}
    assert ending_of(brain, first.session or "") is Ending.REBOOTED
    assert set(seen(brain.acting_as(agent="bob"))) == {"k1", second.session}


@pytest.mark.requirement("SE-35", "SE-41")
def test_program_uses_the_session_that_it_booted_without_naming_it(brain: Brain) -> None:
    key = brain.boot("api", "Read the log").session
    assert brain.acting_as(agent="bob").session.list(agent="bob").session is None

    done = [
        brain.session.task("Mend the parser"),
        brain.session.note("at", "line 7"),
        brain.session.notes(),
        brain.session.checkpoint("Delete the log"),
        brain.session.list(),
        brain.session.handoff("The parser is mended.", next_steps=["Release it"]),
        brain.session.end(),
    ]

    assert {one.session for one in done} == {key}
    assert [one.key for one in done[2].notes or ()] == ["at"]
    assert done[4].sessions == ()
    assert ending_of(brain, key or "") is Ending.ENDED
    handoff = brain.acting_as(session="next").boot("api").handoff
    assert handoff
    assert "The parser is mended." in handoff.text
    with pytest.raises(InvalidInputError, match="Start one by boot"):
        brain.session.end()


def test_ended_session_is_reopened_when_its_client_boots_it_again(brain: Brain) -> None:
    processes = processes_of(brain)
    first = boots(at_work(brain, "k1", process=processes.start(7)), task="Mend the parser")
    brain.acting_as(session="k1").session.end()
    again = boots(at_work(brain, "k1", process=processes.start(8)))

    assert again == stored_session(brain, "k1")
    assert (again.id, again.task, again.ended_at) == (first.id, "Mend the parser", None)
    assert again.process is not None
    assert again.process.pid == 8


@pytest.mark.requirement("SE-17")
def test_heartbeat_of_a_call_does_not_wait_for_a_writer(path: Path, clock: FakeClock) -> None:
    with a_brain(path, clock=clock) as brain, a_brain(path, clock=clock) as other:
        assert isinstance(other.services.store, Store)
        written: list[str] = []
        event.listen(
            other.services.store.dialect.engine,
            "before_cursor_execute",
            lambda *given: written.append(given[2]),
        )
        with brain.services.store.begin("default"):
            # A writer holds the store: the call has its session all the same.
            key = other.session.meet().key
        assert not any(one.startswith(("INSERT", "UPDATE")) for one in written)
        other.services.journal.flush()
        assert seen(brain) == [key]


@pytest.mark.requirement("OB-17")
def test_ending_a_session_counts_its_tokens_before_it_takes_the_write_lock(
    path: Path, clock: FakeClock
) -> None:
    with a_brain(path, clock=clock) as brain:
        assert isinstance(brain.services.store, Store)
        done: list[str] = []
        engine = brain.services.store.dialect.engine
        event.listen(engine, "before_cursor_execute", lambda *given: done.append(given[2]))

        def note_begin(connection: Connection) -> None:
            done.append(str(connection.get_execution_options()))

        event.listen(engine, "begin", note_begin)
        brain.acting_as(session="s1").session.end()
    counted = next(at for at, one in enumerate(done) if one.startswith("SELECT jobs."))
    locks = ("BEGIN IMMEDIATE", "pg_advisory_xact_lock")
    is_written = [any(lock in one for lock in locks) for one in done]
    assert not any(is_written[:counted])
    assert any(is_written[counted:])


def test_heartbeats_that_cannot_be_written_are_dropped_and_counted(brain: Brain) -> None:
    brain.services.store.close()
    key = brain.session.meet().key
    assert key.startswith("ses_")
    brain.services.journal.flush()
    assert brain.services.journal.dropped(Heartbeat) == 1


def test_boot_with_new_metadata_replaces_the_oldest_beyond_the_limit(brain: Brain) -> None:
    full = {f"name{n}": "x" for n in range(16)}
    brain.acting_as(session="s1").boot(metadata=full)
    again = brain.acting_as(session="s1").boot(metadata={"issue": "7"})
    other = brain.acting_as(agent="bo", session="s2")
    [peer] = [one for one in other.session.list().sessions or () if one.session == again.session]
    assert len(peer.metadata or {}) == 16
    assert (peer.metadata or {})["issue"] == "7"
