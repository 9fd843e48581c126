from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.sessions import (
    IDLE_AFTER,
    SILENCE_MAX,
    Ending,
    Process,
    Session,
    ending_of,
    is_idle,
    is_same_process,
    key_of,
    rebooted_by,
)

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
CLIENT = Process(host="here", pid=7, created_at=NOON)
MILLISECOND = timedelta(milliseconds=1)

processes = st.builds(
    Process,
    host=st.sampled_from(["here", "there"]),
    pid=st.integers(1, 3),
    created_at=st.timedeltas(timedelta(), timedelta(seconds=3)).map(lambda after: NOON + after),
)
sessions = st.builds(
    Session,
    id=st.integers(1, 9),
    key=st.sampled_from(["ses_1", "ses_2", "one", "two"]),
    agent=st.just("ann"),
    process=st.none() | processes,
    server=st.none() | processes,
    started_at=st.just(NOON),
    heartbeat_at=st.just(NOON),
    ending=st.none() | st.sampled_from(Ending),
)
silences = st.timedeltas(timedelta(), timedelta(days=3))


def over(key: str, ending: Ending) -> Session:
    return Session(id=1, key=key, agent="ann", started_at=NOON, heartbeat_at=NOON, ending=ending)


@given(one=processes, other=processes)
def test_processes_are_equal_by_host_pid_and_start_time(one: Process, other: Process) -> None:
    assert is_same_process(one, one)
    assert is_same_process(one, other) is is_same_process(other, one)
    if (one.host, one.pid) != (other.host, other.pid):
        assert not is_same_process(one, other)


@pytest.mark.requirement("SE-29")
def test_reused_pid_is_another_process() -> None:
    second = timedelta(seconds=1)
    assert is_same_process(CLIENT, replace(CLIENT, created_at=NOON + second))
    assert not is_same_process(CLIENT, replace(CLIENT, created_at=NOON + second + MILLISECOND))


@given(session=sessions, silence=silences)
def test_silence_ends_no_session_with_a_process_on_this_host(
    session: Session, silence: timedelta
) -> None:
    near = [one for one in (session.process, session.server) if one and one.host == "here"]
    ending = ending_of(session, host="here", now=NOON + silence, is_alive=lambda _: True)
    if near or silence < SILENCE_MAX:
        assert ending is None
    else:
        assert ending is Ending.SILENT
    assert is_idle(session, NOON + silence) is (silence > IDLE_AFTER)


@pytest.mark.requirement("SE-08")
@given(session=sessions, silence=silences, ended=st.sets(processes))
def test_only_a_dead_process_of_this_host_ends_a_session(
    session: Session, silence: timedelta, ended: set[Process]
) -> None:
    dead = {one for one in (session.process, session.server) if one and one in ended}
    ending = ending_of(
        session, host="here", now=NOON + silence, is_alive=lambda one: one not in dead
    )
    assert (ending is Ending.DEAD) is (session.process in dead and session.process.host == "here")
    if ending is Ending.CLOSED:
        assert session.server in dead


@given(session=sessions, silence=silences)
def test_processes_of_other_hosts_are_never_checked(session: Session, silence: timedelta) -> None:
    checked: list[Process] = []

    def inspect(process: Process) -> bool:
        checked.append(process)
        return True

    ending_of(session, host="here", now=NOON + silence, is_alive=inspect)

    assert all(one.host == "here" for one in checked)


@given(
    last=st.none() | st.sampled_from(["ses_1", "one"]),
    known=st.none() | sessions,
    live_sessions=st.lists(sessions.filter(lambda one: one.ending is None)),
)
def test_connection_takes_only_its_own_key_or_that_of_its_client(
    last: str | None, known: Session | None, live_sessions: Sequence[Session]
) -> None:
    named = {one.key for one in live_sessions if one.is_named}
    key = key_of(last, known=known, live_sessions=live_sessions)
    assert key is None or key == last or named == {key}
    assert key_of(key, known=None, live_sessions=live_sessions) == key


def test_ended_session_is_not_resumed(subtests: pytest.Subtests) -> None:
    for ending in [Ending.ENDED, Ending.REBOOTED]:
        with subtests.test(ending=ending):
            assert key_of("ses_1", known=over("ses_1", ending), live_sessions=[]) is None


def test_closed_dead_or_silent_session_is_resumed(subtests: pytest.Subtests) -> None:
    for ending in [Ending.CLOSED, Ending.DEAD, Ending.SILENT]:
        with subtests.test(ending=ending):
            assert key_of("ses_1", known=over("ses_1", ending), live_sessions=[]) == "ses_1"


@pytest.mark.requirement("SE-10")
@given(session=sessions, live_sessions=st.lists(sessions))
def test_reboot_ends_other_sessions_of_the_process_and_never_itself(
    session: Session, live_sessions: Sequence[Session]
) -> None:
    ended = rebooted_by(session, live_sessions)
    assert all(one.key != session.key for one in ended)
    if not session.is_named:
        assert all(not one.is_named and one.server is None for one in ended)
        assert session.server is None or not ended
