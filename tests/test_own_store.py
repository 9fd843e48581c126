"""No test reaches the store, the state or the sockets of a user or of another test."""

import json
import os
import sys
from pathlib import Path

import pytest
from platformdirs import user_data_path, user_state_path

from commonbrain.runtime.local_socket import socket_path
from commonbrain.runtime.settings_loading import load_settings
from tests.in_process import run_brain


@pytest.mark.requirement("EV-07")
def test_process_without_settings_opens_a_store_of_the_tests(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = tmp_path_factory.getbasetemp().parent
    settings = load_settings()

    for path in (settings.store, settings.state, user_data_path(), user_state_path()):
        assert str(path).startswith(str(ours))


@pytest.mark.requirement("EV-07")
def test_program_without_settings_opens_a_store_of_the_tests(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = tmp_path_factory.getbasetemp().parent
    assert run_brain("remember", "Tea is hot").status in {0, 3}, "it may be there already"
    done = run_brain("status", "--json")

    assert done.status == 0, done.err
    assert json.loads(done.out)["store"].startswith(str(ours))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")
def test_socket_of_a_store_is_next_to_it(path: Path) -> None:
    socket = socket_path(path, os.environ)

    assert socket is not None
    assert socket.parent.parent == path.parent.resolve()
