"""Every operation once; the doors are drawn from this table.

`OPERATIONS` is the table: to add an operation, add a file and a row.
"""

from typing import Any, Final

from commonbrain.interfaces.operations.admin import ADMIN
from commonbrain.interfaces.operations.atomize import ATOMIZE
from commonbrain.interfaces.operations.boot import BOOT
from commonbrain.interfaces.operations.doctor import DOCTOR
from commonbrain.interfaces.operations.forget import FORGET
from commonbrain.interfaces.operations.get import GET
from commonbrain.interfaces.operations.job import JOB
from commonbrain.interfaces.operations.ledger import LEDGER
from commonbrain.interfaces.operations.message import MESSAGE
from commonbrain.interfaces.operations.model import MODEL
from commonbrain.interfaces.operations.operation import Command, Door, Operation, Profile
from commonbrain.interfaces.operations.recall import RECALL
from commonbrain.interfaces.operations.reflect import REFLECT
from commonbrain.interfaces.operations.remember import REMEMBER
from commonbrain.interfaces.operations.revise import REVISE
from commonbrain.interfaces.operations.session import SESSION
from commonbrain.interfaces.operations.skill import SKILL
from commonbrain.interfaces.operations.status import STATUS
from commonbrain.interfaces.operations.tenant import TENANT
from commonbrain.interfaces.operations.trace import TRACE
from commonbrain.interfaces.operations.unsettled import UNSETTLED

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
    LEDGER,
    UNSETTLED,
    DOCTOR,
    ATOMIZE,
    MODEL,
    REFLECT,
    ADMIN,
    TENANT,
)

__all__ = ["OPERATIONS", "Command", "Door", "Operation", "Profile"]
