"""The library's front door: one open store, seen by one caller."""

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypedDict, Unpack

from commonbrain.administration.backup import Keep, Repair
from commonbrain.administration.call_metrics import Watching
from commonbrain.administration.embedding_spaces import Spaces
from commonbrain.administration.erasure import Erase
from commonbrain.administration.self_evaluation import Evaluate
from commonbrain.administration.status import Doctor, Status
from commonbrain.administration.tenants import Govern, Tenants
from commonbrain.causality.extraction import Atomize
from commonbrain.causality.trace import Trace
from commonbrain.consolidation.maintenance import Maintain
from commonbrain.consolidation.reflection import Reflect
from commonbrain.coordination.boot import Boot
from commonbrain.coordination.messages import Messages
from commonbrain.coordination.sessions import Sessions
from commonbrain.history.forget import Forget, Prune
from commonbrain.history.review_queue import Unsettled
from commonbrain.history.revise import Revise
from commonbrain.history.undo import Undo
from commonbrain.ingestion.embedding import EmbedPending
from commonbrain.ingestion.service import Remember
from commonbrain.ingestion.skills import Skills
from commonbrain.jobs.service import Jobs
from commonbrain.learning.registry import Models
from commonbrain.model.errors import Invalid
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import Contact
from commonbrain.model.trust import Trust
from commonbrain.retrieval.get import Get
from commonbrain.retrieval.log import ShowLedger
from commonbrain.retrieval.service import Recall
from commonbrain.services import House
from commonbrain.transfer.export import Export
from commonbrain.transfer.imports import Import
from commonbrain.transfer.merge import Merge


class Identity(TypedDict, total=False):
    """Who a view acts as; what is left out stays as it is."""

    agent: str
    project: str | None
    session: str | None
    contact: Contact
    trust_ceiling: Trust
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brain:
    """The paths through one house for one caller; threads may call them at once.

    Every field is called like a function: `brain.remember("...")`, `brain.recall("...")`. Several
    brains made by `acting_as` share one store; closing any of them closes it for all.
    """

    house: House
    caller: Caller
    boot: Boot
    remember: Remember
    recall: Recall
    get: Get
    skills: Skills
    revise: Revise
    forget: Forget
    erase: Erase
    prune: Prune
    undo: Undo
    atomize: Atomize
    reflect: Reflect
    trace: Trace
    message: Messages
    import_: Import
    export: Export
    merge: Merge
    session: Sessions
    status: Status
    watching: Watching
    ledger: ShowLedger
    unsettled: Unsettled
    doctor: Doctor
    embed_pending: EmbedPending
    spaces: Spaces
    repair: Repair
    backup: Keep
    govern: Govern
    tenants: Tenants
    jobs: Jobs
    models: Models
    evaluate: Evaluate
    maintain: Maintain

    @classmethod
    def of(cls, house: House, caller: Caller) -> Self:
        """Show a house to one caller."""
        return cls(
            house=house,
            caller=caller,
            boot=Boot(house, caller),
            remember=Remember(house, caller),
            recall=Recall(house, caller),
            get=Get(house, caller),
            skills=Skills(house, caller),
            revise=Revise(house, caller),
            forget=Forget(house, caller),
            erase=Erase(house, caller),
            prune=Prune(house, caller),
            undo=Undo(house, caller),
            atomize=Atomize(house, caller),
            reflect=Reflect(house, caller),
            trace=Trace(house, caller),
            message=Messages(house, caller),
            import_=Import(house, caller),
            export=Export(house, caller),
            merge=Merge(house, caller),
            session=Sessions(house, caller),
            status=Status(house, caller),
            watching=Watching(house, caller),
            ledger=ShowLedger(house, caller),
            unsettled=Unsettled(house, caller),
            doctor=Doctor(house, caller),
            embed_pending=EmbedPending(house, caller),
            spaces=Spaces(house, caller),
            repair=Repair(house, caller),
            backup=Keep(house, caller),
            govern=Govern(house, caller),
            tenants=Tenants(house, caller),
            jobs=Jobs(house, caller),
            models=Models(house, caller),
            evaluate=Evaluate(house, caller),
            maintain=Maintain(house, caller),
        )

    def acting_as(self, **identity: Unpack[Identity]) -> Self:
        """Give a view of the same store for another agent, project or session.

        Raises:
            Invalid: a name is empty, too long or unprintable, or is not one that a view may choose.

        """
        foreign = sorted(set(identity) - set(Identity.__annotations__))
        if foreign:
            raise Invalid(f"A view cannot choose its {', '.join(foreign)}.")
        return self.of(self.house, replace(self.caller, **identity))

    def close(self) -> None:
        """Write what reads left behind and let go of the store; calling it twice is harmless."""
        self.house.aside.close()
        self.house.saliences.close()
        self.house.rankers.close()
        self.house.journal.close()
        self.house.refusals.close()
        self.house.queue.close()
        self.house.store.close()
        self.house.telemetry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()
