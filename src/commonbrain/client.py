"""The library's front door: one open store, seen by one caller."""

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypedDict, Unpack

from commonbrain.administration.backup import CreateBackup, Repair
from commonbrain.administration.embedding_spaces import EmbeddingSpaces
from commonbrain.administration.erasure import Erase
from commonbrain.administration.self_evaluation import Evaluate
from commonbrain.administration.status import CallMetrics, Doctor, Status
from commonbrain.administration.tenants import AdministerTenant, Tenants
from commonbrain.causality.extraction import Atomize
from commonbrain.causality.trace import Trace
from commonbrain.consolidation.maintenance import Maintain
from commonbrain.consolidation.reflection import Reflect
from commonbrain.coordination.boot import Boot
from commonbrain.coordination.messages import Messages
from commonbrain.coordination.sessions import Sessions
from commonbrain.history.forget import Forget, Prune
from commonbrain.history.review_queue import ListReviewQueue
from commonbrain.history.revise import Revise
from commonbrain.history.undo import Undo
from commonbrain.ingestion.embedding import EmbedPending
from commonbrain.ingestion.service import Remember
from commonbrain.ingestion.skills import Skills
from commonbrain.jobs.service import Jobs
from commonbrain.learning.registry import ManageModels
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import ClientInfo
from commonbrain.model.trust import Trust
from commonbrain.retrieval.get import Get
from commonbrain.retrieval.log import ListRecalls
from commonbrain.retrieval.service import Recall
from commonbrain.services import Services
from commonbrain.transfer.export import Export
from commonbrain.transfer.imports import Import
from commonbrain.transfer.merge import Merge


class Identity(TypedDict, total=False):
    """Who a view acts as; what is left out stays as it is."""

    agent: str
    project: str | None
    session: str | None
    contact: ClientInfo
    trust_ceiling: Trust
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brain:
    """The paths through one house for one caller; threads may call them at once.

    Every field is called like a function: `brain.remember("...")`, `brain.recall("...")`. Several
    brains made by `acting_as` share one store; closing any of them closes it for all.
    """

    services: Services
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
    watching: CallMetrics
    recalls: ListRecalls
    review: ListReviewQueue
    doctor: Doctor
    embed_pending: EmbedPending
    spaces: EmbeddingSpaces
    repair: Repair
    backup: CreateBackup
    govern: AdministerTenant
    tenants: Tenants
    jobs: Jobs
    models: ManageModels
    evaluate: Evaluate
    maintain: Maintain

    @classmethod
    def of(cls, services: Services, caller: Caller) -> Self:
        """Show a house to one caller."""
        return cls(
            services=services,
            caller=caller,
            boot=Boot(services, caller),
            remember=Remember(services, caller),
            recall=Recall(services, caller),
            get=Get(services, caller),
            skills=Skills(services, caller),
            revise=Revise(services, caller),
            forget=Forget(services, caller),
            erase=Erase(services, caller),
            prune=Prune(services, caller),
            undo=Undo(services, caller),
            atomize=Atomize(services, caller),
            reflect=Reflect(services, caller),
            trace=Trace(services, caller),
            message=Messages(services, caller),
            import_=Import(services, caller),
            export=Export(services, caller),
            merge=Merge(services, caller),
            session=Sessions(services, caller),
            status=Status(services, caller),
            watching=CallMetrics(services, caller),
            recalls=ListRecalls(services, caller),
            review=ListReviewQueue(services, caller),
            doctor=Doctor(services, caller),
            embed_pending=EmbedPending(services, caller),
            spaces=EmbeddingSpaces(services, caller),
            repair=Repair(services, caller),
            backup=CreateBackup(services, caller),
            govern=AdministerTenant(services, caller),
            tenants=Tenants(services, caller),
            jobs=Jobs(services, caller),
            models=ManageModels(services, caller),
            evaluate=Evaluate(services, caller),
            maintain=Maintain(services, caller),
        )

    def acting_as(self, **identity: Unpack[Identity]) -> Self:
        """Give a view of the same store for another agent, project or session.

        Raises:
            InvalidInputError: a name is empty, too long or unprintable, or is not one that a view
                may choose.

        """
        unsupported = sorted(set(identity) - set(Identity.__annotations__))
        if unsupported:
            raise InvalidInputError(f"A view cannot choose its {', '.join(unsupported)}.")
        return self.of(self.services, replace(self.caller, **identity))

    def close(self) -> None:
        """Write what reads left behind and let go of the store; calling it twice is harmless."""
        self.services.embedding_executor.close()
        self.services.saliences.close()
        self.services.rerankers.close()
        self.services.journal.close()
        self.services.refusals.close()
        self.services.queue.close()
        self.services.store.close()
        self.services.telemetry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()
