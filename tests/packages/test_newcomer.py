"""What a newcomer does first, from the packages of a release."""

from pathlib import Path

import pytest

from tests.packages.newcomer import first_ten_minutes

pytestmark = pytest.mark.packages


@pytest.mark.requirement("DO-18")
def test_newcomer_installs_connects_imports_corrects_and_the_agent_sees_it(
    dist: Path, tmp_path: Path
) -> None:
    steps = first_ten_minutes(dist, tmp_path / "machine")
    assert {"recall as the agent", "ask for what is not installed"} <= set(steps)
