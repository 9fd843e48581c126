"""The engines that tests of stores run on."""

import pytest

ENGINES = ("sqlite", "postgres")

both_engines = pytest.mark.parametrize("owner", ENGINES, indirect=True)
"""Runs a test for what statements of an engine do; rules above them are the same on both."""
