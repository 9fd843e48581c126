"""The library's front door: one open store, seen by one caller."""

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypedDict, Unpack

from commonbrain.domain.errors import Invalid
from commonbrain.domain.scope import Caller
from commonbrain.domain.session import Contact
from commonbrain.domain.trust import Trust
from commonbrain.flows.atomizing import Atomize
from commonbrain.flows.embedding import EmbedPending
from commonbrain.flows.evaluating.pipeline import Evaluate
from commonbrain.flows.exporting import Export
from commonbrain.flows.forget.erase import Erase
from commonbrain.flows.forget.pipeline import Forget
from commonbrain.flows.forget.prune import Prune
from commonbrain.flows.get import Get
from commonbrain.flows.governing import Govern
from commonbrain.flows.house import House
from commonbrain.flows.importing import Import
from commonbrain.flows.keep import Keep
from commonbrain.flows.ledger import ShowLedger
from commonbrain.flows.merging import Merge
from commonbrain.flows.messages.pipeline import Messages
from commonbrain.flows.models import Models
from commonbrain.flows.recall.pipeline import Recall
from commonbrain.flows.reflect.pipeline import Reflect
from commonbrain.flows.remember.pipeline import Remember
from commonbrain.flows.repair import Repair
from commonbrain.flows.revise.pipeline import Revise
from commonbrain.flows.sessions.boot import Boot
from commonbrain.flows.sessions.pipeline import Sessions
from commonbrain.flows.skills import Skills
from commonbrain.flows.spaces.pipeline import Spaces
from commonbrain.flows.status import Doctor, Status
from commonbrain.flows.tenancy import Tenants
from commonbrain.flows.trace.pipeline import Trace
from commonbrain.flows.undo.pipeline import Undo
from commonbrain.flows.unsettled import Unsettled
from commonbrain.flows.upkeep.jobs import Jobs
from commonbrain.flows.upkeep.maintaining import Maintain
from commonbrain.flows.watching import Watching


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
