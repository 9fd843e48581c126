"""A secret in a name under which something is found again is refused, and stored nowhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.testing.builders import a_brain
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]

CALLS: dict[str, Callable[[Brain], object]] = {
    "project of a boot": lambda brain: brain.boot(project=SECRET),
    "client of a boot": lambda brain: brain.boot(client=SECRET),
    "key of a call": lambda brain: brain.remember("Tea at noon", idempotency_key=SECRET),
    "argument of a job": lambda brain: brain.jobs.run("consolidate", {"project": SECRET}),
}


@pytest.mark.parametrize("name", CALLS)
def test_secret_in_a_name_is_refused_and_not_stored(name: str, path: Path) -> None:
    with a_brain(path) as brain:
        with pytest.raises(RejectedError) as refused:
            CALLS[name](brain)
        assert refused.value.code == "secret_detected"
        assert SECRET not in str(refused.value)
    assert SECRET.encode() not in b"".join(one.read_bytes() for one in path.parent.glob("*"))
