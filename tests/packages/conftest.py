import os
from pathlib import Path

import pytest

from tests.packages.artifacts import build

DIST_VARIABLE = "COMMONBRAIN_TEST_DIST"
"""Names a folder with the packages to test; without it they are built."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all wheels and source distributions."""
    given = os.environ.get(DIST_VARIABLE)
    return Path(given).absolute() if given else build(tmp_path_factory.mktemp("dist"))
