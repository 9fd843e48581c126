"""The log of a session's failures: what it records of edits, and of hooks that run at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from commonbrain.hooks.failure_log import FailureLog
from commonbrain.hooks.table import HookEvent
from commonbrain.observability.hook_runs import HookRuns
from tests.hooks.test_hook_failures import FILE, OUTPUT, Session, stored


def test_failures_at_the_same_time_are_all_recorded(tmp_path: Path) -> None:
    """Agents run commands in parallel, and each hook is a process of its own."""
    commands = [f"make part{number}" for number in range(4)]
    for number in range(10):
        log = FailureLog(HookRuns(tmp_path), f"session {number}")
        together = Barrier(len(commands))

        def fail(command: str, *, log: FailureLog = log, together: Barrier = together) -> None:
            event = HookEvent(session=log.session, command=command, output=OUTPUT, exit_code=1)
            together.wait()
            assert log.follow(event, is_recorded=True).failed

        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(fail, commands))
        edit = HookEvent(session=log.session, files=(FILE,))
        log.follow(edit, is_recorded=True)
        for command in commands:
            event = HookEvent(session=log.session, command=command, exit_code=0)
            assert log.follow(event, is_recorded=True).fixed


@pytest.mark.parametrize("file", ["../../private/plan.py", "/home/ann/private/plan.py"])
def test_edit_outside_of_the_folder_is_stored_by_the_name_of_its_file(
    store: Path, file: str
) -> None:
    session = Session(store, "outside")
    session.fails()
    session.edits(file, old="plan = 1", new="plan = 2")
    session.passes()

    [text] = stored(store)
    assert "It passed after an edit of plan.py" in text
    assert "private" not in text
    assert "plan = " not in text


def test_edit_is_named_from_the_folder_on_however_its_client_writes_the_path(store: Path) -> None:
    session = Session(store, "within")
    session.fails()
    session.edits("docs/../" + FILE)
    session.passes()

    [text] = stored(store)
    assert f"It passed after an edit of {FILE}:" in text
    assert "selectinload" in text


def test_edit_above_the_folder_is_named_from_the_root_of_the_repository(store: Path) -> None:
    (store.parent / ".git").mkdir()
    folder = store.parent / "web" / "shop"
    folder.mkdir(parents=True)
    session = Session(store, "above", folder=folder)
    session.fails()
    session.edits("../../lib/plan.py", old="plan = 1", new="plan = 2")
    session.passes()

    [text] = stored(store)
    assert "It passed after an edit of lib/plan.py:" in text
    assert "plan = 2" in text
