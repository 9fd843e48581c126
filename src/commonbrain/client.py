"""The library: `class Brain`, one open store as one caller sees it."""

# The function of a capability has no body: it names the class and describes it.
# pyright: reportReturnType=false

from __future__ import annotations

from dataclasses import replace as replace_fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from commonbrain.threads import after_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from commonbrain.administration.backup import CreateBackup, Repair
    from commonbrain.administration.embedding_spaces import EmbeddingSpaces
    from commonbrain.administration.erasure import Erase
    from commonbrain.administration.status import CallMetrics, Doctor, Status
    from commonbrain.causality.trace import CausalTrace
    from commonbrain.consolidation.maintenance import Maintain
    from commonbrain.consolidation.reflection import Reflect
    from commonbrain.coordination.boot import Boot
    from commonbrain.coordination.briefing import Briefing
    from commonbrain.coordination.messages import Messages
    from commonbrain.coordination.sessions import Sessions
    from commonbrain.history.audit import ListAudit
    from commonbrain.history.bulk_edit import BulkEdit
    from commonbrain.history.forget import Forget, Prune
    from commonbrain.history.review_queue import ListReviewQueue
    from commonbrain.history.revise import Revise
    from commonbrain.history.undo import Undo
    from commonbrain.ingestion.embedding import EmbedPending
    from commonbrain.ingestion.service import Remember
    from commonbrain.jobs.service import Jobs
    from commonbrain.model.scope import Authority, Caller, Role, Trust
    from commonbrain.model.sessions import ClientInfo
    from commonbrain.retrieval.failures import WhyFailed
    from commonbrain.retrieval.get import Get, MemoryView, View
    from commonbrain.retrieval.listing import ListMemories
    from commonbrain.retrieval.log import ListRecalls
    from commonbrain.retrieval.recall import Recall
    from commonbrain.retrieval.skills import Skills
    from commonbrain.services import Services
    from commonbrain.transfer.archive import Export
    from commonbrain.transfer.imports import Import
    from commonbrain.transfer.merge import Merge

_Made_co = TypeVar("_Made_co", covariant=True)


class Identity(TypedDict, total=False):
    """The identity of a caller; omitted fields stay as they are."""

    agent: str
    project: str | None
    session: str | None
    contact: ClientInfo
    trust_ceiling: Trust
    """Only lowered, as role and authority are: a view may do no more than its origin."""
    role: Role
    authority: Authority
    request_id: str | None


def identity_of(*, agent: str | None, session: str | None) -> Identity:
    """Return the identity with the names that are given."""
    identity = Identity()
    if agent is not None:
        identity["agent"] = agent
    if session is not None:
        identity["session"] = session
    return identity


class _Capability(Protocol[_Made_co]):
    """What a type checker sees of a capability, which is a property."""

    @overload
    def __get__(self, brain: None, _owner: object) -> property: ...
    @overload
    def __get__(self, brain: Brain, _owner: object) -> _Made_co: ...


def _capability(module: str) -> Callable[[Callable[[Brain], _Made_co]], _Capability[_Made_co]]:
    """Make a property that imports its class, which the function returns, when it is used."""

    def decorate(described: Callable[[Brain], _Made_co]) -> Any:  # noqa: ANN401 a property
        name = described.__annotations__["return"]

        def make(brain: Brain) -> _Made_co:
            made = getattr(import_module(f"commonbrain.{module}"), name)
            return made(brain.services, brain.caller)

        return property(make, doc=described.__doc__)

    return decorate


class Brain:
    """One open store as one caller sees it; `commonbrain.open()` returns it.

    Methods may be called from several threads. Brains made by `acting_as` share the store; closing
    one of them closes it for all. A capability is imported when it is first used.

    All methods raise `InvalidInputError` for a malformed argument, `RejectedError` if validation,
    a policy or a limit says no, `NotFoundError` for what does not exist or is not visible, and
    `UnavailableError` if the store is locked, full or gone. After an error nothing is changed,
    unless the method says otherwise.
    """

    __slots__ = ("caller", "services")

    def __new__(cls, services: Services, caller: Caller) -> Self:  # noqa: ARG004 as __init__
        """Create a view; that of a server audits what it shows."""
        guard = services.guard
        return object.__new__(cls if guard is None else guard.view_class(cls))

    def __init__(self, services: Services, caller: Caller) -> None:
        """Create a view of open services for a caller; use `commonbrain.open()`."""
        self.services = services
        self.caller = caller

    def acting_as(self, **identity: Unpack[Identity]) -> Self:
        """Return a view of the same store for another agent, project or session.

        Example: `brain.acting_as(agent="codex", project="shop").boot()`.

        Raises:
            InvalidInputError: a name is empty, too long or not printable, or a field is unknown.

        """
        unsupported = sorted(set(identity) - set(Identity.__annotations__))
        if unsupported:
            from commonbrain.model.errors import InvalidInputError  # noqa: PLC0415

            raise InvalidInputError(f"A view cannot choose its {', '.join(unsupported)}.")
        caller = replace_fields(self.caller, **identity).limited_to(self.caller)
        return type(self)(self.services, caller)

    def as_model(self) -> Self:
        """Return a view for what a model writes of its own accord, such as tools of an agent.

        What a person wrote stays above it, a BLOCKER of it waits for a person, it erases nothing,
        and claims no more trust than a user.
        """
        from commonbrain.model.scope import Authority, Trust  # noqa: PLC0415

        return self.acting_as(authority=Authority.MODEL, trust_ceiling=Trust.USER_CLAIM)

    def identified(self) -> Self:
        """Return a view whose lines in the audit have one request id, a new one if it has none."""
        if self.caller.request_id is not None:
            return self
        from commonbrain.model.ids import RANDOM_BITS, make_id  # noqa: PLC0415

        services = self.services
        number = make_id(services.clock.now(), services.random_source.bits(RANDOM_BITS))
        return self.acting_as(request_id=f"{number:016x}")

    # Everyday use

    @_capability("ingestion.service")
    def remember(self) -> Remember:
        """Store a text, or up to 100 drafts, in one transaction.

        Example: `brain.remember("Releases are cut on Tuesdays", kind="rule", project="shop")`.
        """

    @_capability("retrieval.recall")
    def recall(self) -> Recall:
        """Find the memories that answer a query; without a query, list the newest.

        Example: `brain.recall("why postgres?", project="api", max_items=3)`.
        """

    @_capability("retrieval.failures")
    def why_failed(self) -> WhyFailed:
        """Find what fixed a failure before, by what the command printed; None if unknown.

        Example: `brain.why_failed(completed.stderr)`.
        """

    @_capability("retrieval.listing")
    def list(self) -> ListMemories:
        """List memories for a person, page by page; unlike `recall`, without a budget of tokens.

        Example: `brain.list(project="shop", kinds=["rule"], facets=True)`.
        """

    @_capability("retrieval.get")
    def get(self) -> Get:
        """Return one memory as a whole, in any state, or the current skill with a name.

        Example: `brain.get("mem_38G0FM4BXXFX7", views=["history"])`.
        """

    def get_several(
        self, ids: Sequence[str], *, views: Sequence[View | str] = (), bump: bool = True
    ) -> tuple[MemoryView, ...]:
        """Return up to 20 memories in the given order, each once; all of them or an error."""
        from commonbrain.retrieval.get import Get  # noqa: PLC0415

        return Get(self.services, self.caller).several(ids, views=views, bump=bump)

    @_capability("coordination.boot")
    def boot(self) -> Boot:
        """Start a session and return its briefing, in at most 2,000 tokens.

        Without a session of its own, a process has one at a time: booting again ends the last one.

        Example: `print(brain.boot("shop", "Move the orders to Postgres").text)`.
        """

    def preview_boot(self, project: str | None = None, task: str | None = None) -> Briefing:
        """Return the briefing that `boot` would give; starts no session and changes nothing.

        Args:
            project: the project in which the agent works; by default the caller's.
            task: its task in at most 2,000 characters, by which patterns are chosen.

        """
        from commonbrain.coordination.boot import Boot  # noqa: PLC0415

        return Boot(self.services, self.caller).preview(project, task)

    # Review and correct

    @_capability("history.revise")
    def revise(self) -> Revise:
        """Correct memories: supersede, restore, resolve, link, retag, approve and more."""

    @_capability("history.review_queue")
    def review(self) -> ListReviewQueue:
        """List open conflicts, memories that need review, pending ones, and duplicate suspects."""

    @_capability("history.bulk_edit")
    def bulk_edit(self) -> BulkEdit:
        """Tag, pin, archive or confirm up to 100 memories in one transaction, after a preview.

        Example: `brain.bulk_edit(ids, "retag", tags=["database"], confirm=len(ids))`.
        """

    @_capability("history.forget")
    def forget(self) -> Forget:
        """Forget memories: recall no longer returns them; `revise.restore` brings them back.

        One memory is forgotten at once. Several are previewed; repeat the call with `confirm`.

        Example: `brain.forget(agent="runaway", since="today", reason="a broken prompt")`.
        """

    @_capability("history.forget")
    def prune(self) -> Prune:
        """Forget memories that were not accessed for a number of days, oldest first."""

    @_capability("history.undo")
    def undo(self) -> Undo:
        """Revert everything that an agent, a session or a period changed, after a preview.

        Example: `brain.undo(agent="runaway", reason="a broken prompt", confirm=3)`.
        """

    @_capability("administration.erasure")
    def erase(self) -> Erase:
        """Remove the text of memories for ever, with all copies, after a preview; admins only."""

    # Causes, sessions and messages

    @_capability("causality.trace")
    def trace(self) -> CausalTrace:
        """Follow causes and effects, precursors, dependents and provenance of a memory."""

    @_capability("retrieval.skills")
    def skills(self) -> Skills:
        """List skills, and those that a query would trigger."""

    @property
    def session(self) -> Sessions:
        """Use sessions: tasks, notes, checkpoints, leases, handoffs, and other agents.

        A caller without a session uses the one that its program booted last.
        """
        from commonbrain.coordination.session_registry import resumed_caller  # noqa: PLC0415
        from commonbrain.coordination.sessions import Sessions  # noqa: PLC0415

        return Sessions(self.services, resumed_caller(self.services, self.caller))

    @_capability("coordination.messages")
    def message(self) -> Messages:
        """Send, read and acknowledge messages, and assign tasks."""

    @_capability("consolidation.reflection")
    def reflect(self) -> Reflect:
        """Preview a reflection, or summarize what is known about a query."""

    # Transfer

    @_capability("transfer.imports")
    def import_(self) -> Import:
        """Import memories or conversations from a file or folder; what is known already stays.

        Example: `brain.import_("markdown", "notes/", project="shop", dry_run=True)`.
        """

    @_capability("transfer.archive")
    def export(self) -> Export:
        """Write every memory of the tenant to a new file, private ones included; admins only."""

    @_capability("transfer.merge")
    def merge(self) -> Merge:
        """Merge a file that `export` wrote; repeating it changes nothing."""

    @_capability("administration.backup")
    def backup(self) -> CreateBackup:
        """Write a consistent, verified copy of the store into a file, while others write.

        Example: `brain.backup("brain-backup.db")`; `commonbrain.restore` reads it.
        """

    # Operate

    @_capability("administration.status")
    def status(self) -> Status:
        """Count what the store contains."""

    @_capability("administration.status")
    def doctor(self) -> Doctor:
        """Check the store, its derived data and the embedder; changes nothing."""

    @_capability("administration.backup")
    def repair(self) -> Repair:
        """Rewrite full text and vectors from the memories, while others read and write."""

    @_capability("ingestion.embedding")
    def embed_pending(self) -> EmbedPending:
        """Embed memories that were stored while the embedder was unavailable, oldest first."""

    @_capability("administration.status")
    def metrics(self) -> CallMetrics:
        """Read call figures, failed calls and the health of dependencies."""

    @_capability("retrieval.log")
    def recalls(self) -> ListRecalls:
        """Read the recall log."""

    @_capability("consolidation.maintenance")
    def maintain(self) -> Maintain:
        """Preview maintenance; the job `maintain` runs it."""

    @_capability("jobs.service")
    def jobs(self) -> Jobs:
        """Run, list and cancel background jobs."""

    @_capability("administration.embedding_spaces")
    def spaces(self) -> EmbeddingSpaces:
        """Manage embedding spaces: build, compare, switch, drop."""

    @_capability("history.audit")
    def audit(self) -> ListAudit:
        """List who changed what and when, newest first, with refusals; for admins.

        Example: `brain.audit(agent="codex", since="yesterday")`.
        """

    # Lifecycle

    def close(self) -> None:
        """Write queued traces and accesses, and release the store; may be called twice.

        Several threads may call it: one waits for the other.

        In a forked child it does nothing, because the store belongs to the parent.
        """
        from commonbrain.model.errors import UnavailableError  # noqa: PLC0415

        try:
            self.services.store.check_process()
        except UnavailableError:
            return
        with self.services.close_lock:
            self.services.embedding_executor.close()
            self.services.trained.close()
            if self.services.reranker is not None:
                self.services.reranker.close()
            self.services.journal.close()
            if self.services.guard is not None:
                self.services.guard.close()
            self.services.queue.close()
            self.services.store.close()
            self.services.telemetry.close()

    def __enter__(self) -> Self:
        """Return the brain itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()


_UNCHECKED = frozenset({"caller", "services", "close"})
"""Attributes of a brain that take no lock and import nothing."""


def _get_checked(brain: Brain, name: str) -> Any:  # noqa: ANN401 any attribute
    """Return an attribute of a brain, unless the brain belongs to the parent process."""
    if not name.startswith("__") and name not in _UNCHECKED:
        brain.services.store.check_process()
    return object.__getattribute__(brain, name)


def _check_inherited() -> None:
    """Refuse the brains of the parent before they wait for a lock of one of its threads.

    Such a lock may be Python's own, of a module that a thread was importing.
    """
    setattr(Brain, "__getattribute__", _get_checked)  # noqa: B010 only children pay for the check


after_fork(_check_inherited)
