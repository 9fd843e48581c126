"""No test reaches the store or the state of whoever runs it."""

import json
import subprocess
import sys

import pytest
from platformdirs import user_data_path, user_state_path

from commonbrain.runtime.settings_loading import load_settings
from tests.processes import PATIENCE_S, clean_environment


@pytest.mark.requirement("EV-07")
def test_without_a_setting_this_process_opens_a_store_of_the_tests(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = tmp_path_factory.getbasetemp().parent
    settings = load_settings()

    for path in (settings.store, settings.state, user_data_path(), user_state_path()):
        assert str(path).startswith(str(ours))


@pytest.mark.requirement("EV-07")
def test_without_a_setting_processes_of_tests_open_a_store_of_the_tests(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = tmp_path_factory.getbasetemp().parent
    done = subprocess.run(
        [sys.executable, "-m", "commonbrain", "status", "--json"],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        env=clean_environment(),
    )

    assert json.loads(done.stdout)["store"].startswith(str(ours))
