"""The operation doctor."""

from dataclasses import replace

from commonbrain.administration.status import Diagnosis
from commonbrain.api.errors import EXIT_CORRUPT
from commonbrain.api.operation import Operation, Request, Transport, argument
from commonbrain.client import Brain
from commonbrain.model.escaping import pluralize
from commonbrain.model.scope import Role
from commonbrain.storage.interface import Progress, ignore_progress


class DoctorRequest(Request):
    """Whether to repair the store first, and to scan it for secrets."""

    repair: bool = argument("Rebuild full text and vectors from the rows first.", default=False)
    secrets: bool = argument(
        "List memories and messages that hold secrets, and the call to erase them.", default=False
    )


def _handle(
    brain: Brain, request: DoctorRequest, *, on_progress: Progress = ignore_progress
) -> Diagnosis:
    repaired = brain.repair(on_progress) if request.repair else None
    diagnosis = brain.doctor(secrets=request.secrets, on_progress=on_progress)
    return replace(diagnosis, repaired=repaired)


def _render(reply: Diagnosis) -> str:
    labels = {True: "sound", False: "UNSOUND"}
    lines = [
        f"{'look' if one.is_sound and one.hint else labels[one.is_sound]}: {one.check}, "
        f"{one.detail}. {one.hint}".rstrip()
        for one in reply.findings
    ]
    if (done := reply.repaired) is not None:
        lines.append(
            f"Reindexed: the words of {pluralize(done.words, 'memory', many='memories')}, the "
            f"vectors of {done.vectors_made:,}; {done.vectors_dropped:,} unsound vectors dropped."
        )
    return "\n".join([*lines, *secret_lines(reply)])


def secret_lines(reply: Diagnosis) -> list[str]:
    """List the memories that hold secrets, with type and position of each secret."""
    memories = reply.secrets.memories if reply.secrets else ()
    return [f"{one.id} ({one.kind} of {one.agent}): {'; '.join(one.secrets)}" for one in memories]


DOCTOR = Operation(
    name="doctor",
    title="Doctor",
    purpose="Check that the store is intact and that its indexes match its rows, or rebuild them.",
    request=DoctorRequest,
    reply=Diagnosis,
    handle=_handle,
    has_progress=True,
    render_text=_render,
    role=Role.WRITER,
    transports=frozenset({Transport.CLI}),
    exit_code=lambda reply: 0 if reply.is_sound else EXIT_CORRUPT,
    is_idempotent=True,
)
