"""What a session that ends leaves to be thought over."""

from commonbrain.domain.clusters import CLUSTER_MIN
from commonbrain.domain.job import Job
from commonbrain.domain.kinds import Kind
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Role
from commonbrain.domain.session import Session
from commonbrain.flows.act import Act
from commonbrain.flows.jobbing import REFLECT, add_job


def ask_to_reflect(act: Act, session: Session) -> Job | None:
    """Ask for a reflection on behalf of an agent whose session told of enough; else give None.

    It is that agent's own: nobody else may look at what it keeps to itself.
    """
    caller = act.caller
    told = Filter(
        kinds=(Kind.EVENT, Kind.MESSAGE), agent=caller.agent, session=session.key, trust_min=0.0
    )
    if not caller.role.covers(Role.WRITER):
        return None
    if len(act.tx.memories.newest(act.look(told), limit=CLUSTER_MIN)) < CLUSTER_MIN:
        return None
    given = {"agent": caller.agent}
    return add_job(act.tx, act.house, caller=caller, kind=REFLECT, given=given, due_at=act.now)
