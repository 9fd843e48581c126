from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import Operation, load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.scope import Role
from commonbrain.testing.builders import a_brain


def as_role(brain: Brain, role: Role) -> Brain:
    return Brain(brain.services, replace(brain.caller, role=role))


@pytest.mark.parametrize(
    "operation",
    [one for one in load_operations() if one.role is not Role.READER],
    ids=lambda one: one.name,
)
def test_reader_may_not_call_operations_of_writers(
    path: Path, operation: Operation[Any, Any]
) -> None:
    with a_brain(path) as brain, pytest.raises(RejectedError) as refused:
        dispatch(
            operation, as_role(brain, Role.READER), request=operation.request.model_construct()
        )
    assert refused.value.code == "insufficient_role"


def test_admin_may_call_operations_of_writers_and_not_vice_versa() -> None:
    assert Role.ADMIN.covers(Role.WRITER)
    assert Role.WRITER.covers(Role.WRITER)
    assert not Role.WRITER.covers(Role.ADMIN)
