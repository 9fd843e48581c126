"""Every operation once; the doors are drawn from this table.

`OPERATIONS` is the table: to add an operation, add a file and a row.
"""

from typing import Any, Final

from commonbrain.api.operation import Command, Operation, Profile, Transport
from commonbrain.api.operations.admin import ADMIN
from commonbrain.api.operations.atomize import ATOMIZE
from commonbrain.api.operations.boot import BOOT
from commonbrain.api.operations.doctor import DOCTOR
from commonbrain.api.operations.forget import FORGET
from commonbrain.api.operations.get import GET
from commonbrain.api.operations.job import JOB
from commonbrain.api.operations.message import MESSAGE
from commonbrain.api.operations.model import MODEL
from commonbrain.api.operations.recall import RECALL
from commonbrain.api.operations.recalls import RECALLS
from commonbrain.api.operations.reflect import REFLECT
from commonbrain.api.operations.remember import REMEMBER
from commonbrain.api.operations.review import REVIEW
from commonbrain.api.operations.revise import REVISE
from commonbrain.api.operations.session import SESSION
from commonbrain.api.operations.skill import SKILL
from commonbrain.api.operations.status import STATUS
from commonbrain.api.operations.tenant import TENANT
from commonbrain.api.operations.trace import TRACE

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    BOOT,
    REMEMBER,
    RECALL,
    GET,
    REVISE,
    FORGET,
    TRACE,
    SESSION,
    MESSAGE,
    SKILL,
    JOB,
    STATUS,
    RECALLS,
    REVIEW,
    DOCTOR,
    ATOMIZE,
    MODEL,
    REFLECT,
    ADMIN,
    TENANT,
)

__all__ = ["OPERATIONS", "Command", "Operation", "Profile", "Transport"]
