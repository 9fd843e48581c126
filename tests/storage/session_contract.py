"""What every store promises of sessions and of the signs of life that calls leave."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from string import ascii_letters
from typing import Any

import pytest
from sqlalchemy import inspect

from commonbrain.model.limits import PATH_CHARS_MAX, SHOWN_MAX
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.sessions import Ending, Process, Session
from commonbrain.storage.interface import Heartbeat, MemoryAccess, ShownMemories
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import LATER, OpenStore

CLIENT = Process(host="here", pid=7, created_at=NOON)
SERVER = Process(host="here", pid=8, created_at=NOON)
SOON = NOON + timedelta(minutes=1)


def a_session(id_: int, **more: Any) -> Session:  # noqa: ANN401
    """Make a session that began at noon, with anything else as given."""
    plain = Session(id=id_, key=f"k{id_}", agent="ann", started_at=NOON, heartbeat_at=NOON)
    return replace(plain, **more)


class SessionContract:
    """The promises of `tx.sessions`; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    @pytest.fixture
    def known(self, store: Store) -> Callable[..., Session | None]:
        """Give what is stored of a session."""

        def find(key: str = "k1", agent: str = "ann") -> Session | None:
            with store.snapshot(LOCAL_TENANT) as tx:
                return tx.sessions.get(agent, key)

        return find

    @pytest.mark.parametrize("is_known", [True, False])
    def test_ids_shown_to_a_session_are_stored_until_its_end(
        self, store: Store, known: Callable[..., Session | None], *, is_known: bool
    ) -> None:
        save(store, *([a_session(1)] if is_known else []))

        show(store, {1: False, 2: True})
        show(store, {1: True})
        assert shown(store) == {1: True, 2: True}
        assert shown(store, agent="bob") == {}

        one = known()
        assert one is not None
        with store.begin(LOCAL_TENANT) as tx:
            tx.sessions.end([one.id], ending=Ending.ENDED, at=SOON)
        assert shown(store) == {}

    def test_ids_shown_to_a_session_are_bounded_and_can_be_reset(self, store: Store) -> None:
        show(store, dict.fromkeys(range(SHOWN_MAX + 5), False))
        assert list(shown(store)) == list(range(5, SHOWN_MAX + 5))

        show(store, {7: False}, is_fresh=True)
        assert shown(store) == {7: False}

    @pytest.mark.requirement("DM-13", "DM-35")
    def test_session_is_read_as_stored(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        full_session = a_session(
            1, project="api", task="Mend it", client="codex 1", cwd="/api", process=CLIENT,
            server=SERVER, booted_at=SOON, ended_at=LATER, ending=Ending.DEAD,
            metadata={"branch": "fix/parser", "model": "opus"},
        )  # fmt: skip
        save(store, full_session, a_session(2))

        assert known() == full_session
        assert known("k2") == a_session(2)
        assert known("k3") is None
        assert known(agent="bob") is None

    @pytest.mark.requirement("DM-35")
    def test_session_with_the_longest_path_of_linux_is_stored_and_found(self, store: Store) -> None:
        # Random, because Postgres compresses what repeats before it measures a row of an index.
        folder = "/" + "".join(Random(7).choices(ascii_letters, k=PATH_CHARS_MAX - 1))  # noqa: S311
        save(store, a_session(1, cwd=folder, process=CLIENT))
        heartbeat = a_session(2, cwd=folder, process=CLIENT, heartbeat_at=SOON)
        beat(store, heartbeat)
        with store.snapshot(LOCAL_TENANT) as tx:
            live = tx.sessions.of_process("ann", CLIENT, cwd=folder)
        assert [one.cwd for one in live] == [folder] * 2

    def test_saving_a_session_again_changes_it_under_the_same_id(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1))
        save(store, a_session(9, key="k1", task="Mend it"))

        assert known() == a_session(1, task="Mend it")

    def test_sessions_with_colliding_random_ids_are_both_stored(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1), a_session(1, key="other"))

        assert known() is not None
        assert known("other") is not None

    def test_live_sessions_are_listed_by_agent_and_project_latest_first(self, store: Store) -> None:
        save(
            store,
            a_session(1, project="api"),
            a_session(2, project="api", agent="bob", heartbeat_at=LATER),
            a_session(3, project="web", heartbeat_at=SOON),
            a_session(4, project="api", ended_at=SOON, ending=Ending.ENDED),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            live = tx.sessions.live
            assert [one.id for one in live(limit=9)] == [2, 3, 1]
            assert [one.id for one in live(limit=2)] == [2, 3]
            assert [one.id for one in live(limit=9, project="api")] == [2, 1]
            assert [one.id for one in live(limit=9, project="api", agent="ann")] == [1]
            assert [one.id for one in live(limit=9, after=(LATER, 2))] == [3, 1]
            assert [one.id for one in live(limit=1, after=(LATER, 1))] == [2]

    def test_sessions_are_found_by_process_and_folder_despite_reused_process_numbers(
        self, store: Store
    ) -> None:
        reused_pid = replace(CLIENT, created_at=LATER)
        save(
            store,
            a_session(1, process=CLIENT, cwd="/api"),
            a_session(2, process=reused_pid, cwd="/api"),
            a_session(3, process=CLIENT, cwd="/web"),
            a_session(4, process=CLIENT),
            a_session(5, process=CLIENT, cwd="/api", agent="bob"),
            a_session(6, process=CLIENT, cwd="/api", ended_at=SOON, ending=Ending.DEAD),
            a_session(7, server=CLIENT, cwd="/api"),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            at = tx.sessions.of_process
            assert [one.id for one in at("ann", CLIENT, cwd="/api")] == [1]
            assert [one.id for one in at("ann", reused_pid, cwd="/api")] == [2]
            assert [one.id for one in at("ann", CLIENT, cwd=None)] == [4]

    def test_sessions_of_a_terminal_are_its_unnamed_ones_in_any_folder(self, store: Store) -> None:
        reused_pid = replace(CLIENT, created_at=LATER)
        save(
            store,
            a_session(1, key="ses_1", process=CLIENT, cwd="/api"),
            a_session(2, key="ses_2", process=CLIENT, cwd="/web"),
            a_session(3, key="ses_3", process=reused_pid),
            a_session(4, process=CLIENT),
            a_session(5, key="ses_5", process=CLIENT, server=SERVER),
            a_session(6, key="ses_6", process=CLIENT, agent="bob"),
            a_session(7, key="ses_7", process=CLIENT, ended_at=SOON, ending=Ending.ENDED),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            assert [one.id for one in tx.sessions.of_terminal("ann", CLIENT)] == [2, 1]
            hosts = (("ann", CLIENT.host), ("ann", "elsewhere"), ("eve", CLIENT.host))
            assert [tx.sessions.has_terminals(*one) for one in hosts] == [True, False, False]

    def test_last_booted_session_is_a_live_session_under_the_prefix(self, store: Store) -> None:
        save(
            store,
            a_session(1, key="http_codex_1", booted_at=LATER),
            a_session(2, key="http_codex_2", booted_at=SOON, heartbeat_at=LATER),
            a_session(3, key="http_codex_3"),
            a_session(4, key="httpxcodexx4", booted_at=LATER),
            a_session(5, key="http_codex_5", booted_at=LATER, agent="bob"),
            a_session(6, key="http_codex_6", booted_at=LATER, ended_at=SOON, ending=Ending.ENDED),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            last = tx.sessions.last_booted("ann", prefix="http_codex_")
            assert last is not None
            assert last.id == 1
            assert tx.sessions.last_booted("ann", prefix="http_node_") is None

    @pytest.mark.requirement("DM-38")
    def test_live_sessions_are_found_by_an_index(self, store: Store) -> None:
        with store.snapshot(LOCAL_TENANT) as tx:
            indexes = inspect(tx.work.connection).get_indexes("sessions")
        columns = {one["name"]: one["column_names"] for one in indexes}
        assert columns["ix_sessions_heartbeat"] == ["tenant_id", "heartbeat_at"]
        assert columns["ix_sessions_project"] == ["tenant_id", "project", "heartbeat_at"]
        assert columns["ix_sessions_process"] == ["tenant_id", "agent", "host", "pid"]

    def test_sessions_with_a_local_process_are_probed_in_turn(self, store: Store) -> None:
        elsewhere = replace(CLIENT, host="there")
        save(
            store,
            *(a_session(id_, process=CLIENT) for id_ in (1, 2, 3)),
            a_session(4, server=SERVER),
            a_session(5, process=elsewhere),
            a_session(6),
            a_session(7, process=CLIENT, ended_at=SOON, ending=Ending.CLOSED),
        )
        with store.begin(LOCAL_TENANT) as tx:
            assert [one.id for one in tx.sessions.to_probe("here", limit=2)] == [1, 2]
            tx.sessions.probed([1, 2], at=SOON)
            assert [one.id for one in tx.sessions.to_probe("here", limit=9)] == [3, 4, 1, 2]

    def test_silent_sessions_are_those_without_a_local_process(self, store: Store) -> None:
        elsewhere = replace(CLIENT, host="there")
        save(
            store,
            a_session(1),
            a_session(2, process=elsewhere),
            a_session(3, process=CLIENT),
            a_session(4, heartbeat_at=LATER),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            silent = tx.sessions.silent("here", since=SOON, http_since=SOON, limit=9)
            assert [one.id for one in silent] == [1, 2]

    def test_sessions_over_http_have_their_own_silence_limit(self, store: Store) -> None:
        save(store, a_session(1, heartbeat_at=SOON), a_session(2, key="http_a", heartbeat_at=SOON))
        with store.snapshot(LOCAL_TENANT) as tx:
            silent = tx.sessions.silent("here", since=NOON, http_since=LATER, limit=9)
            assert [one.id for one in silent] == [2]

    def test_only_live_sessions_are_ended(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1), a_session(2, ended_at=SOON, ending=Ending.ENDED))
        with store.begin(LOCAL_TENANT) as tx:
            tx.sessions.end([1, 2, 3], ending=Ending.DEAD, at=LATER)
            tx.sessions.end([], ending=Ending.DEAD, at=LATER)

        assert known() == a_session(1, ended_at=LATER, ending=Ending.DEAD)
        assert known("k2") == a_session(2, ended_at=SOON, ending=Ending.ENDED)

    def test_heartbeat_creates_its_session_and_never_moves_back(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        first = a_session(1, client="codex 1", cwd="/api", project="api", process=CLIENT)
        beat(store, first, replace(first, heartbeat_at=LATER), replace(first, heartbeat_at=SOON))

        assert known() == replace(first, heartbeat_at=LATER)

    def test_heartbeat_adds_missing_fields_and_removes_none(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1, project="api", task="Mend it", cwd="/api", booted_at=SOON))
        beat(store, a_session(9, key="k1", cwd="/web", process=CLIENT, server=SERVER))
        beat(store, a_session(9, key="k1"))

        assert known() == a_session(
            1, project="api", task="Mend it", cwd="/api", booted_at=SOON, process=CLIENT,
            server=SERVER,
        )  # fmt: skip

    @pytest.mark.parametrize("ending", Ending)
    def test_heartbeat_revives_a_timed_out_session_and_not_an_ended_session(
        self, store: Store, known: Callable[..., Session | None], ending: Ending
    ) -> None:
        over = a_session(1, process=CLIENT, server=SERVER, ended_at=SOON, ending=ending)
        save(store, over)
        beat(store, a_session(1, heartbeat_at=SOON))
        assert known() == (over if ending in EXPLICIT_ENDINGS else replace(over, heartbeat_at=SOON))

        beat(store, a_session(1, heartbeat_at=LATER))

        revived = a_session(1, process=CLIENT, heartbeat_at=LATER)
        assert known() == (over if ending in EXPLICIT_ENDINGS else revived)

    def test_heartbeat_with_an_end_ends_a_live_session(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1, task="Mend it"))
        closed = {"ended_at": SOON, "ending": Ending.CLOSED}
        beat(store, a_session(1), a_session(1, heartbeat_at=SOON, **closed))

        assert known() == a_session(1, task="Mend it", heartbeat_at=SOON, **closed)

    def test_heartbeat_with_an_existing_id_does_not_prevent_other_heartbeats(
        self, store: Store, known: Callable[..., Session | None]
    ) -> None:
        save(store, a_session(1))
        beat(store, a_session(1, key="other"), a_session(2))

        assert known("k2") is not None


EXPLICIT_ENDINGS = (Ending.ENDED, Ending.REBOOTED)


def save(store: Store, *sessions: Session) -> None:
    """Store sessions in one transaction."""
    with store.begin(LOCAL_TENANT) as tx:
        for session in sessions:
            tx.sessions.save(session)


def beat(store: Store, *heard: Session) -> None:
    """Write signs of life together, as the journal does."""
    beats = [Heartbeat(tenant=LOCAL_TENANT, session=session) for session in heard]
    store.note_reads(LOCAL_TENANT, traces=[], accesses=[], beats=beats, retain_from=NOON)


def show(store: Store, memories: dict[int, bool], *, is_fresh: bool = False) -> None:
    """Write what a session was shown, as recalls do."""
    shown_memories = ShownMemories(agent="ann", session="k1", memories=memories, is_fresh=is_fresh)
    access = MemoryAccess(tenant=LOCAL_TENANT, ids=(), at=NOON, shown=shown_memories)
    store.note_reads(LOCAL_TENANT, traces=[], accesses=[access], retain_from=NOON)


def shown(store: Store, *, agent: str = "ann") -> dict[int, bool]:
    with store.snapshot(LOCAL_TENANT) as tx:
        return tx.sessions.shown(agent, "k1")
