"""Secrets in what is said beside memories: reasons, annotations, tags and assignees."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.parameters import Parameters
from commonbrain.model.scope import OnSecret
from commonbrain.testing.builders import a_brain
from tests.flows.asking import stored
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]
SAYINGS: dict[str, Callable[[Brain, str], object]] = {
    "annotation": lambda brain, id_: brain.revise.annotate(id_, f"Use it:\n{TEXT}"),
    "supersede": lambda brain, id_: brain.revise.supersede(id_, "Three cores", reason=TEXT),
    "pin": lambda brain, id_: brain.revise.restore(id_, reason=TEXT),
    "tag": lambda brain, id_: brain.revise.retag(id_, add=[SECRET]),
    "assignee": lambda brain, id_: brain.revise.status(id_, "blocked", assignee=SECRET),
    "forget": lambda brain, id_: brain.forget(id_, reason=TEXT),
    "erase": lambda brain, id_: brain.erase(id_, reason=TEXT, confirm=1),
    "undo": lambda brain, _: brain.undo(agent="ann", reason=TEXT, confirm=1),
}


def everything_in(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.mark.requirement("ST-11")
@pytest.mark.parametrize("saying", SAYINGS)
def test_a_secret_said_beside_a_memory_is_refused_and_not_repeated(
    brain: Brain, path: Path, saying: str
) -> None:
    id_ = stored(brain, "The nightly build needs two cores", kind="task")
    with pytest.raises(RejectedError) as refusal:
        SAYINGS[saying](brain, id_)
    assert refusal.value.code == "secret_detected"
    assert SECRET not in str(refusal.value)
    assert brain.get(id_).state == "active"
    assert SECRET.encode() not in everything_in(path)


@pytest.mark.parametrize("saying", SAYINGS)
def test_where_secrets_are_redacted_only_their_sort_is_kept(path: Path, saying: str) -> None:
    with closing(a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT))) as brain:
        id_ = stored(brain, "The nightly build needs two cores", kind="task")
        SAYINGS[saying](brain, id_)
    assert SECRET.encode() not in everything_in(path)
