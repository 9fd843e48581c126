"""Events of two matters, and a reflection on what is stored as a worker does it."""

from collections.abc import Mapping, Sequence
from typing import Any

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.interface import QueryScope
from tests.working import a_worker

CHECKOUT = (
    "The checkout service returned errors after the deploy of build 811. Customers of four shops"
    " saw an empty cart for eleven minutes, and nine of them wrote to the support team.",
    "We rolled the checkout service back to build 810 after the errors. It took six minutes since"
    " the old image had left the cache of the second cluster.",
    "The checkout service lacked the variable STRIPE_REGION in build 811. It went unseen before"
    " the deploy, as staging gets it from a file that production lacks.",
    "We decided to validate variables of the checkout service at every start.",
)
GARDEN = (
    "Watering the garden roses took an hour this morning, because the hose at the shed leaks. The"
    " neighbour lent us a longer one for the rest of the week.",
    "The garden roses got new soil and watering tubes along the southern fence. Two tubes are left"
    " over and wait in the shed for the herbs.",
    "Ann planted two more garden roses next to the watering tubes. The label says that they bloom"
    " in June and dislike wet feet. The old rose at the gate has black spots on its lower leaves.",
)
"""Either is enough for an episode, and too little for a second one next to the other's."""


def store_events(brain: Brain, texts: Sequence[str], **more: Any) -> list[int]:  # noqa: ANN401 of a draft
    """Store events; give their ids."""
    reply = brain.remember([Draft(body=text, kind="event", **more) for text in texts])
    assert {one.status for one in reply.items} == {"stored"}
    return [ids.parse(ids.MEMORY, str(one.id)) for one in reply.items]


def reflect(brain: Brain, **given: object) -> Mapping[str, Any]:
    """Reflect as a worker does; give the job's result."""
    job = brain.jobs.run("reflect", given)
    a_worker(brain).sweep()
    done = brain.jobs.show(job.id)
    assert done.state == "done", done.reason
    assert done.result is not None
    return done.result


def every(brain: Brain, kind: Kind, *states: State) -> list[Memory]:
    """Read all of a kind that the caller sees, the oldest first."""
    expected = Filter(kinds=(kind,), states=states, trust_min=0.0)
    query_scope = QueryScope(caller=brain.caller, filter=expected, now=brain.services.clock.now())
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        results = tx.memories.get([hit.id for hit in tx.memories.newest(query_scope, limit=100)])
    return sorted(results.values(), key=lambda one: one.id)


def sources(brain: Brain, memory: Memory) -> set[int]:
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        links = tx.links.touching([memory.id], types=[LinkType.DERIVED_FROM])
    return {one.to_id for one in links if one.from_id == memory.id}
