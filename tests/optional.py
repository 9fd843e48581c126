"""Leaves tests that need foreign programs out of the ordinary suite, and says so at its end."""

from dataclasses import dataclass
from typing import Any, Final

import pytest


@dataclass(frozen=True, slots=True)
class OptionalTests:
    """Tests with a mark that run only if an option of the same name is given."""

    mark: str
    about: str
    argument: str = ""
    """What `just` needs to run them."""

    @property
    def option(self) -> str:
        """The option."""
        return f"--{self.mark}"


OPTIONAL: Final = (
    OptionalTests("clients", "tests that drive foreign clients"),
    OptionalTests("browser", "tests of the page in a browser"),
    OptionalTests("packages", "tests of the built packages"),
    OptionalTests("citus", "tests of a store on a Citus cluster", argument="SOURCE"),
)


def add_options(parser: pytest.Parser) -> None:
    """Offer the options that ask for these tests."""
    for one in OPTIONAL:
        parser.addoption(one.option, action="store_true", help=f"also run the {one.about}")


class Selection:
    """The pytest hooks that leave marked tests out unless their option is given."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the marked tests."""
        for one in OPTIONAL:
            if self._config.getoption(one.option):
                continue
            marked = [item for item in items if item.get_closest_marker(one.mark)]
            items[:] = [item for item in items if item not in marked]
            self._config.hook.pytest_deselected(items=marked)
            self._left_out[one.mark] = len(marked)

    def pytest_sessionfinish(self) -> None:
        """Report to the controller of a distributed run, if this is one of its workers."""
        worker_output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if worker_output is not None:
            # Under xdist each worker selects for itself and only the controller has a terminal.
            worker_output["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 xdist need not be there
        """Read a worker's report; each of them collected every test."""
        reported: dict[str, Any] = getattr(node, "workeroutput", {})
        self._left_out |= reported.get("left_out", {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what did not run and how to run it."""
        for one in OPTIONAL:
            if count := self._left_out.get(one.mark):
                terminalreporter.write_line(
                    f"{one.mark}: {count} {one.about} were left out; "
                    f"run `just {f'{one.mark} {one.argument}'.strip()}`",
                )
