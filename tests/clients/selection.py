"""Leaves the tests of foreign clients out of the ordinary suite, and says so in its last lines."""

from typing import Any

import pytest

OPTION = "--clients"
MARK = "clients"
# Under xdist each worker selects for itself and only the controller has a terminal.
_REPORTED = "clients_left_out"


def add_option(parser: pytest.Parser) -> None:
    """Offer the option that asks for these tests."""
    parser.addoption(
        OPTION,
        action="store_true",
        help="also run the tests that drive foreign clients (`just clients` installs those)",
    )


class ClientsSelection:
    """The pytest hooks that leave tests marked `clients` out unless the option is given."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the marked tests."""
        if self._config.getoption(OPTION):
            return
        marked = [item for item in items if item.get_closest_marker(MARK)]
        items[:] = [item for item in items if item not in marked]
        self._config.hook.pytest_deselected(items=marked)
        self._left_out = len(marked)

    def pytest_sessionfinish(self) -> None:
        """Tell the controller of a distributed run, if this is one of its workers."""
        worker_output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if worker_output is not None:
            worker_output[_REPORTED] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 xdist need not be there
        """Hear of it from a worker; each of them collected every test."""
        told: dict[str, Any] = getattr(node, "workeroutput", {})
        self._left_out = max(self._left_out, told.get(_REPORTED, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what did not run and how to run it."""
        if self._left_out:
            terminalreporter.write_line(
                f"clients: {self._left_out} tests that drive foreign clients were left out; "
                "run `just clients`",
            )
