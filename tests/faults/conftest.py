import pytest


@pytest.fixture
def lays_out_stores() -> bool:
    """How a store is made is what some of these tests break, so that it is made as by users."""
    return False
