"""Secrets in what is written about memories: reasons, annotations, tags and assignees."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.parameters import Parameters
from commonbrain.model.scope import OnSecret
from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]
OPERATIONS: dict[str, Callable[[Brain, str], object]] = {
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
def test_secret_in_a_revision_is_refused_and_not_repeated(
    brain: Brain, path: Path, subtests: pytest.Subtests
) -> None:
    id_ = stored(brain, "The nightly build needs two cores", kind="task")
    for operation, revise in OPERATIONS.items():
        with subtests.test(operation=operation):
            with pytest.raises(RejectedError) as refusal:
                revise(brain, id_)
            assert refusal.value.code == "secret_detected"
            assert SECRET not in str(refusal.value)
            assert brain.get(id_).state == "active"
            assert SECRET.encode() not in everything_in(path)


def test_secret_in_a_revision_is_redacted_if_configured(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for operation, revise in OPERATIONS.items():
        with subtests.test(operation=operation):
            path = tmp_path / f"{operation}.db"
            with a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT)) as brain:
                id_ = stored(brain, "The nightly build needs two cores", kind="task")
                revise(brain, id_)
            assert SECRET.encode() not in everything_in(path)
