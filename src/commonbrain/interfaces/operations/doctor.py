"""The operation doctor."""

from commonbrain.brain import Brain
from commonbrain.flows.status import Diagnosis
from commonbrain.interfaces.errors import EXIT_CORRUPT
from commonbrain.interfaces.operations.operation import Door, Operation, Request


class DoctorRequest(Request):
    """Nothing needs to be said."""


def _handle(brain: Brain, _request: DoctorRequest) -> Diagnosis:
    return brain.doctor()


def _tell(reply: Diagnosis) -> str:
    marks = {True: "sound", False: "UNSOUND"}
    return "\n".join(f"{marks[one.is_sound]}: {one.check}, {one.detail}" for one in reply.findings)


DOCTOR = Operation(
    name="doctor",
    title="Doctor",
    purpose="Check that the store is whole and that its indexes agree with its rows.",
    request=DoctorRequest,
    reply=Diagnosis,
    handle=_handle,
    tell=_tell,
    doors=frozenset({Door.CLI}),
    exit_code=lambda reply: 0 if reply.is_sound else EXIT_CORRUPT,
    is_read_only=True,
    is_idempotent=True,
)
