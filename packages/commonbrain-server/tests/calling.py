"""Calls of people with a credential, their refusals, and the audit of both."""

from typing import Any

import pytest
from commonbrain_server.guard import guard_of

from commonbrain.api.dispatch import authorize, dispatch
from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.storage.interface import AccessEntry

KETTLE = "The kettle is in the blue cupboard."
BY_NAME = {one.name: one for one in load_operations()}


def call(brain: Brain, name: str, **given: object) -> Any:  # noqa: ANN401 each reply its own
    authorize(brain.services, brain.caller)
    operation = BY_NAME[name]
    return dispatch(operation, brain, request=operation.request.model_validate(given))


def refusal(brain: Brain, name: str, **given: object) -> CommonbrainError:
    with pytest.raises(CommonbrainError) as error:
        call(brain, name, **given)
    return error.value


def audited(brain: Brain) -> list[AccessEntry]:
    """Write what is pending, and list the access audit, newest first."""
    guard_of(brain.services).refusals.close()
    with brain.services.store.snapshot("default") as tx:
        return tx.credentials.audit_entries(limit=10_000)
