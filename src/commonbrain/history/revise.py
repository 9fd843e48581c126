"""Revise: every way to correct a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, Unpack

from commonbrain.embeddings.interface import Vectors
from commonbrain.history.change_plan import (
    ChangePlan,
    ChangeStatus,
    ReviseResult,
    Step,
    UpdateMemory,
    apply_step,
    describe,
    how_resolved,
    propose,
    reverses_above,
    show,
)
from commonbrain.history.effects import effects_of
from commonbrain.history.metadata import checked_annotation, plain_instant, plain_names
from commonbrain.history.planners import PLANNERS, plan_approval
from commonbrain.history.supersede import InheritOptions, inheritance_of, supersede_with
from commonbrain.history.unit_of_work import (
    UnitOfWork,
    read_unit,
    validate_reason,
    vectors_of,
    write_unit,
)
from commonbrain.ingestion.citations import CitingAuthor
from commonbrain.ingestion.embedding import embed_drafts
from commonbrain.ingestion.pending_acks import check_pending_acks, check_pending_acks_of
from commonbrain.ingestion.preparation import PreparedDraft, prepare_drafts
from commonbrain.ingestion.result import ItemResult, rejected
from commonbrain.ingestion.service import DraftFields, draft_of
from commonbrain.ingestion.sources import namesakes
from commonbrain.invalidation.dependents import AffectedDependents, preview_affected
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import TaskPriority, TaskStatus
from commonbrain.model.links import DISAGREEMENTS, STRENGTH_DEFAULT, LinkType
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.model.query import FeedbackMark
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Role, Scope, Trust, check_may_write
from commonbrain.model.skills import skill_of
from commonbrain.model.tasks import WITHDRAW, Decision
from commonbrain.retrieval.citations import missing_places, without_places
from commonbrain.retrieval.get import fetch
from commonbrain.security.authority import (
    Proposal,
    check_authorized,
    check_may_resolve,
    is_authorized,
    is_trusted,
    proposal_of,
)
from commonbrain.services import Capability
from commonbrain.storage.change_log import (
    check_version,
)


def _check_awaits(memory: Memory) -> None:
    if memory.state not in AWAITING_STATES:
        raise RejectedError(
            f"{show(memory)} is {memory.state}: it does not await review.",
            code="not_awaiting",
            hint="To list those that do: recall without a query, states quarantined and candidate.",
        )


_UNRESTRICTED: Final = frozenset({Action.ANNOTATE, Action.RATE, Action.ACK})
"""Actions that need no authority over the memory, because they only add to it."""
_LATER: Final = "Until the embedder is available, it is found by words only."


def apply_change(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Carry out a change, or store it as a proposal if the caller lacks the authority."""
    memory = unit.fetch(proposal.id)
    is_unrestricted = proposal.op in _UNRESTRICTED
    check_may_write(unit.caller, Scope.TEAM if is_unrestricted else memory.scope)
    _check_pending_acks(unit, [memory], proposal=proposal)
    plan = PLANNERS[proposal.op](unit, memory, proposal=proposal)
    # A change of one memory can affect another, or lead into another project.
    outcomes = [step.after for step in plan.steps if isinstance(step, UpdateMemory)]
    _check_pending_acks(unit, [*_amended(plan), *outcomes], proposal=proposal)
    if not is_unrestricted and not _is_permitted(unit, plan, proposal=proposal):
        held = propose(unit, proposal, target=memory)
        return ReviseResult(
            id=show(held),
            action=proposal.op,
            status=ChangeStatus.PROPOSED,
            headline=held.headline,
            hint=how_resolved(held),
        )
    return _apply_plan(unit, memory, proposal=proposal, plan=plan)


def _check_pending_acks(unit: UnitOfWork, memories: list[Memory], *, proposal: Proposal) -> None:
    if proposal.op is not Action.ACK:
        done = {"status": TaskStatus.DONE}.items() <= proposal.arguments.items()
        check_pending_acks_of(unit, memories, is_resolving=done)


def approve(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Approve a pending memory; a proposed change is carried out in the same transaction.

    An active memory that no person wrote gets the authority of the approver.

    Raises:
        RejectedError: it is not pending, the caller lacks the authority, or the change is not
            possible.

    """
    memory = unit.fetch(proposal.id)
    is_unconfirmed = memory.state is State.ACTIVE and memory.authority is not Authority.PERSON
    if not is_unconfirmed:
        _check_awaits(memory)
    check_may_resolve(unit.caller, memory)
    carried = proposal_of(memory)
    target = memory if carried is None else unit.fetch(carried.id)
    check_may_write(unit.caller, target.scope)
    check_authorized(unit.caller, target)
    plan = plan_approval(unit, memory)
    for one in _amended(plan):
        check_may_write(unit.caller, one.scope)
        check_authorized(unit.caller, one)
    changed = tuple(one.line() for one in effects_of(unit, plan.steps))
    is_text = carried is None or carried.op is Action.SUPERSEDE
    subject = memory if is_text else target
    done = _apply_plan(unit, subject, proposal=carried or proposal, plan=plan)
    if not is_text:
        carried_out = replace(memory, state=State.FORGOTTEN)
        unit.amend(memory, carried_out, action=Action.APPROVE, reason=proposal.reason)
    return replace(
        done,
        id=show(subject),
        action=Action.APPROVE,
        status=ChangeStatus.DONE,
        changed=changed,
    )


def reject(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Reject a pending memory; its author may withdraw it too."""
    memory = unit.fetch(proposal.id)
    _check_awaits(memory)
    is_author = memory.agent == unit.caller.agent and unit.caller.role is not Role.READER
    is_own = is_author and unit.caller.authority.covers(memory.authority)
    if not is_own:
        check_may_resolve(unit.caller, memory)
    else:
        check_may_write(unit.caller, memory.scope)
    step = UpdateMemory(before=memory, after=replace(memory, state=State.FORGOTTEN))
    return _apply_plan(unit, memory, proposal=proposal, plan=ChangePlan(steps=(step,)))


def _is_permitted(unit: UnitOfWork, plan: ChangePlan, *, proposal: Proposal) -> bool:
    for one in _amended(plan):
        check_may_write(unit.caller, one.scope)
    is_untrusted = unit.caller.trust_ceiling is Trust.UNTRUSTED_WEB
    has_authority = is_trusted if _is_report(proposal) else is_authorized
    # Both sides of a conflict are decided on.
    other_id = proposal.arguments.get("other") if proposal.op is Action.KEEP_BOTH else None
    if proposal.op is Action.UNLINK and proposal.arguments["type"] in DISAGREEMENTS:
        other_id = proposal.arguments["to"]
    others = [unit.fetch(ids.parse(ids.MEMORY, str(other_id)))] if other_id else []
    within = all(has_authority(unit.caller, one) for one in (*_amended(plan), *others))
    # An agent reports how a task goes, also after a person did.
    within = within and (
        _is_report(proposal) or not any(reverses_above(unit, step) for step in plan.steps)
    )
    return within and not (plan.requires_trust and is_untrusted)


def _is_report(proposal: Proposal) -> bool:
    """Return whether a change only reports how a task goes."""
    changed = {name for name, value in proposal.arguments.items() if value is not None}
    is_progress = proposal.arguments.get("status") != TaskStatus.STALE
    return proposal.op is Action.STATUS and changed == {"status"} and is_progress


def _amended(plan: ChangePlan) -> list[Memory]:
    """Return the memories that a plan needs authority over."""
    return [step.before if isinstance(step, UpdateMemory) else step.memory for step in plan.steps]


def _apply_plan(
    unit: UnitOfWork, memory: Memory, *, proposal: Proposal, plan: ChangePlan
) -> ReviseResult:
    for step in plan.steps:
        apply_step(unit, step, proposal=proposal)
    for step in plan.steps:
        if isinstance(step, UpdateMemory) and step.before.state not in CURRENT_STATES:
            _check_name(unit, step.after)
    lines = tuple(line for step in plan.steps for line in describe(step))
    is_late = any(_is_unembedded(unit, step) for step in plan.steps)
    hints = [*([plan.hint] if plan.hint else []), *([_LATER] if is_late else [])]
    return ReviseResult(
        id=ids.show(ids.MEMORY, proposal.id),
        action=proposal.op,
        status=ChangeStatus.DONE if plan.steps else ChangeStatus.UNCHANGED,
        headline=None if memory.state is State.FORGOTTEN and not plan.steps else memory.headline,
        changed=lines,
        hint=" ".join(hints) or None,
    )


def _check_name(unit: UnitOfWork, memory: Memory) -> None:
    """Check that no other skill has taken the name of one that becomes active again."""
    skill = skill_of(memory) if memory.state in CURRENT_STATES else None
    taken = namesakes(unit, name=skill.name, exclude_ids=[memory.id]) if skill else []
    if skill and taken:
        raise RejectedError(
            f"Another skill is now named {skill.name}: {show(taken[0])}.",
            code="gate_skill",
            hint="Supersede or forget that one first.",
        )


def _is_unembedded(unit: UnitOfWork, step: Step) -> bool:
    """Return whether a step restores a memory whose vectors could not be computed."""
    return (
        isinstance(step, UpdateMemory)
        and step.before.id not in unit.vectors
        and step.before.state not in FINDABLE_STATES
        and step.after.state in FINDABLE_STATES
    )


_REVIVING = frozenset({Action.RESTORE, Action.APPROVE})
"""Actions that can make a memory searchable again, so that it is embedded first."""
_SIDES: Final = 2
_HANDLERS: Final = {Action.APPROVE: approve, Action.REJECT: reject}
"""Actions that are not carried out by a plan."""


class TaskUpdate(TypedDict, total=False):
    """Further changes of a task, their condition and reason."""

    due_at: datetime | str | None
    priority: TaskPriority | str | None
    assignee: str | None
    version: int | None
    reason: str | None


class Revise(Capability):
    """Revises memories for one caller.

    Every method except `supersede` returns a `ReviseResult`: done, unchanged if there was nothing
    to do, or proposed if the caller lacks the authority. All raise `InvalidInputError` for a
    malformed id, `NotFoundError` for a memory that the caller may not see, `RejectedError` with a
    code and the next step, and `UnavailableError` if the store stayed locked. After an error
    nothing is changed.
    """

    def supersede(
        self,
        id: str,  # noqa: A002 the public name is id
        text: str,
        *,
        reason: str,
        inherit_skill: bool = False,
        version: int | None = None,
        **known: Unpack[DraftFields],
    ) -> ItemResult:
        """Replace a current memory by a new text; omitted fields are inherited.

        Its pin, valid supports, causes and effects are inherited too.

        Returns:
            The outcome of the new text: `stored` replaced the old one, `quarantined` is a proposal;
            otherwise the old memory stays current.

        Raises:
            InvalidInputError: the id is malformed, or the reason is missing.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `already_superseded` (names the newest), `version_conflict`, action items
                need acknowledgement first, or the scope is not allowed.
            UnavailableError: the store stayed locked; `busy`, too many texts of the tenant wait to
                be embedded; or `deadline`. The old memory is still current.

        """
        why = self._reason(reason)
        old_id = ids.parse(ids.MEMORY, id)
        is_tied = known.get("depends_on") or known.get("derived_from")
        inherit_options = InheritOptions(skill=inherit_skill, supports=not is_tied)
        with read_unit(self.services, self.caller) as unit:
            old = unit.fetch(old_id)
            draft = inheritance_of(
                draft_of(text, **known), old, unit=unit, inherit_options=inherit_options
            )
        prepared = prepare_drafts(
            draft,
            self.caller,
            scanner=self.services.secret_scanner,
            parameters=self.services.parameters_for(self.caller),
        )
        author = CitingAuthor(self.caller, self.services.secret_scanner)
        missing = missing_places([old], self.caller).get(old.id, [])
        prepared = author.cite_code(prepared, replaces=without_places(old, missing).payload)
        if not isinstance(prepared, PreparedDraft):
            return rejected(prepared)
        made = embed_drafts([prepared], self.caller, services=self.services)
        [ready] = self.services.trained.rate(made, self.caller)
        with write_unit(self.services, self.caller) as unit:
            old = unit.fetch(old_id)
            check_pending_acks(unit, [old.project, ready.project], settles=[old_id])
            check_version(unit.tx, old_id, version=version)
            outcome = supersede_with(
                unit, ready, old_id=old_id, reason=why, inherit_options=inherit_options
            )
            outcome = replace(outcome, affected=unit.propagate_invalidation())
        continue_propagation(self.services, self.caller)
        if outcome.embedding_pending:
            self.services.start_embedding(self.caller)
        return outcome

    def restore(self, id: str, *, reason: str) -> ReviseResult:  # noqa: A002 the public name is id
        """Restore a superseded (its successor is forgotten), forgotten or archived memory."""
        return self._do(Action.RESTORE, id, reason=self._reason(reason))

    def keep_both(
        self,
        id: str,  # noqa: A002 the public name is id
        *,
        reason: str,
        other: str | None = None,
        projects: Sequence[str] = (),
    ) -> ReviseResult:
        """Keep a superseded memory along with its successor, or both memories of a conflict.

        With `projects`, for `id` and for the other, each applies in its own project only.

        Raises:
            InvalidInputError: the projects are not two different ones, or there is no other memory.

        """
        arguments: dict[str, Any] = {"other": _id(other) if other else None}
        if projects:
            arguments["projects"] = self._projects(projects, is_of_two=other is not None)
        return self._do(Action.KEEP_BOTH, id, reason=self._reason(reason), arguments=arguments)

    def resolve(self, id: str, *, other: str, reason: str) -> ReviseResult:  # noqa: A002
        """Resolve a conflict in favour of `id`, which supersedes the other."""
        arguments = {"other": _id(other)}
        return self._do(Action.RESOLVE, id, reason=self._reason(reason), arguments=arguments)

    def annotate(self, id: str, text: str) -> ReviseResult:  # noqa: A002 the public name is id
        """Add a correction or warning to a memory, with the caller's own trust."""
        checked = checked_annotation(text, services=self.services, caller=self.caller)
        return self._do(Action.ANNOTATE, id, arguments={"text": checked})

    def rate(self, id: str, vote: Literal["up", "down"]) -> ReviseResult:  # noqa: A002
        """Vote for or against a memory that was used."""
        votes = {"up": 1, "down": -1}
        if vote not in votes:
            raise InvalidInputError(f"{vote!r} is not a vote.", hint="Give up or down.")
        done = self._do(Action.RATE, id, arguments={"vote": votes[vote]})
        if done.status is ChangeStatus.DONE:
            self.services.telemetry.voted(votes[vote])
        return done

    def pin(self, id: str) -> ReviseResult:  # noqa: A002 the public name is id
        """Pin a memory, so that it never decays."""
        return self._do(Action.PIN, id, arguments={"pinned": True})

    def unpin(self, id: str) -> ReviseResult:  # noqa: A002 the public name is id
        """Unpin a memory."""
        return self._do(Action.PIN, id, arguments={"pinned": False})

    def retag(
        self,
        id: str,  # noqa: A002 the public name is id
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> ReviseResult:
        """Add and remove tags."""
        arguments = {
            "add": self._names(add, what="tag"),
            "remove": plain_names(remove, what="tag"),
        }
        return self._do(Action.RETAG, id, arguments=arguments)

    def set_expiry(self, id: str, expires_at: datetime | str | None) -> ReviseResult:  # noqa: A002
        """Set the time at which a current memory stops being valid; None means never."""
        return self._do(Action.SET_EXPIRY, id, arguments={"expires_at": plain_instant(expires_at)})

    def link(
        self,
        id: str,  # noqa: A002 the public name is id
        to: str,
        *,
        type: LinkType | str,  # noqa: A002 the public name is type
        strength: float = STRENGTH_DEFAULT,
        reason: str | None = None,
    ) -> ReviseResult:
        """Link a memory to another, giving a `reason`; linking again strengthens the link."""
        arguments = {"to": _id(to), "type": str(parse_choice(LinkType, type)), "strength": strength}
        why = self._reason(reason) if reason else None
        return self._do(Action.LINK, id, reason=why, arguments=arguments)

    def unlink(self, id: str, to: str, *, type: LinkType | str) -> ReviseResult:  # noqa: A002
        """Remove the link of that type to another memory."""
        arguments = {"to": _id(to), "type": str(parse_choice(LinkType, type))}
        return self._do(Action.UNLINK, id, arguments=arguments)

    def status(
        self,
        id: str,  # noqa: A002 the public name is id
        status: TaskStatus | str,
        **more: Unpack[TaskUpdate],
    ) -> ReviseResult:
        """Set the status of a task: open, blocked, done or stale; a lease of another agent stays.

        Args:
            id: the task.
            status: the new status.
            more: `due_at`, `priority` and `assignee`, if they change too; `version`, as returned by
                get, rejects the change if another was faster; `reason` gives the result.

        """
        priority, assignee, reason = more.get("priority"), more.get("assignee"), more.get("reason")
        arguments = {
            "status": str(parse_choice(TaskStatus, status)),
            "due_at": plain_instant(more.get("due_at")),
            "priority": str(parse_choice(TaskPriority, priority)) if priority else None,
            "assignee": self._names([assignee], what="assignee")[0] if assignee else None,
        }
        why = self._reason(reason) if reason else None
        return self._do(
            Action.STATUS, id, reason=why, arguments=arguments, version=more.get("version")
        )

    def ack(
        self,
        id: str | Sequence[str],  # noqa: A002 the public name is id
        decision: Decision | str,
        *,
        reason: str | None = None,
        until: datetime | str | None = None,
    ) -> ReviseResult:
        """Acknowledge action items: will_execute, already_done, not_relevant, or deferred.

        Several get the same answer, all or none.

        `already_done` (tasks only, which become done) and `not_relevant` need a reason. A task is
        acknowledged for everyone, a rule for the caller's session. `withdraw`, by its author or an
        admin, lifts it: it stays as a rule or task that no longer blocks.
        """
        is_withdrawn = decision == WITHDRAW
        if is_withdrawn and until is not None:
            raise InvalidInputError("withdraw takes no time.", hint="Leave due_at out.")
        arguments = {
            "decision": WITHDRAW if is_withdrawn else str(parse_choice(Decision, decision)),
            "until": plain_instant(until),
        }
        why = self._reason(reason) if reason else None
        return self._do(Action.ACK, id, reason=why, arguments=arguments)

    def review(self, id: str, *, reason: str) -> ReviseResult:  # noqa: A002 the public name is id
        """Confirm a memory that needs review, with the reason why it is still valid."""
        why = self._reason(reason)
        with read_unit(self.services, self.caller) as unit:
            memory = unit.fetch(ids.parse(ids.MEMORY, id))
        arguments = {"missing": missing_places([memory], self.caller).get(memory.id, [])}
        return self._do(Action.REVIEW, id, reason=why, arguments=arguments)

    def preview(self, id: str) -> AffectedDependents:  # noqa: A002 the public name is id
        """Return which memories would need review or be archived if this one became invalid."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            memory = fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id))
            now = self.services.clock.now()
            return preview_affected(tx, self.caller, ids_=[memory.id], now=now)

    def approve(self, id: str | Sequence[str], *, reason: str) -> ReviseResult:  # noqa: A002
        """Approve pending memories, all or none; a proposed change is carried out."""
        return self._do(Action.APPROVE, id, reason=self._reason(reason))

    def reject(self, id: str | Sequence[str], *, reason: str) -> ReviseResult:  # noqa: A002
        """Reject pending memories, all or none; their author may withdraw them this way."""
        return self._do(Action.REJECT, id, reason=self._reason(reason))

    def _projects(self, given: Sequence[str], *, is_of_two: bool) -> list[str]:
        names = self._names(given, what="project")
        if len(names) != len(given) or len(names) != _SIDES or not is_of_two:
            raise InvalidInputError(
                "Each memory needs its own project.",
                hint="Give other, and two different projects: one for id, one for other.",
            )
        return names

    def _reason(self, reason: str) -> str:
        return validate_reason(reason, services=self.services, caller=self.caller)

    def _names(self, given: Sequence[str], *, what: str) -> list[str]:
        clean = [self.services.clean_text(name, what=what, caller=self.caller) for name in given]
        return plain_names(clean, what=what)

    def _do(
        self,
        op: Action,
        id: str | Sequence[str],  # noqa: A002 the public name is id
        *,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> ReviseResult:
        """Change one memory, or several in the same way, all or none."""
        proposals = [
            Proposal(op=op, id=ids.parse(ids.MEMORY, one), reason=reason, arguments=arguments or {})
            for one in ([id] if isinstance(id, str) else id)
        ]
        if not proposals:
            raise InvalidInputError("No memory was named.", hint="Give one id or several.")
        vectors: dict[int, Vectors] = {}
        for one in proposals if op in _REVIVING else ():
            vectors |= self._vectors(one)
        done: list[ReviseResult] = []
        with write_unit(self.services, self.caller, vectors=vectors or None) as unit:
            for proposal in proposals:
                check_version(unit.tx, proposal.id, version=version)
                result = _HANDLERS.get(op, apply_change)(unit, proposal)
                _credit(unit, proposal, done=result)
                done.append(result)
            affected = unit.propagate_invalidation()
        continue_propagation(self.services, self.caller)
        changed = tuple(line for one in done for line in one.changed)
        return replace(done[0], changed=changed, affected=affected)

    def _vectors(self, proposal: Proposal) -> Mapping[int, Vectors]:
        """Embed memories that may be restored; it takes too long inside the transaction."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            memory = fetch(tx, self.caller, id_=proposal.id)
            carried = proposal_of(memory)
            both = [memory, *(tx.memories.get([carried.id]).values() if carried else ())]
        return vectors_of(self.services, self.caller, memories=both)


def _credit(unit: UnitOfWork, proposal: Proposal, *, done: ReviseResult) -> None:
    """Record a vote or a link as feedback on the recall that showed the memory."""
    arguments = proposal.arguments
    if proposal.op is Action.RATE and done.status is ChangeStatus.DONE:
        mark = FeedbackMark.USEFUL if arguments["vote"] > 0 else FeedbackMark.WRONG
        unit.credit([proposal.id], mark=mark)
    elif proposal.op is Action.LINK and arguments["type"] not in DISAGREEMENTS:
        unit.credit([ids.parse(ids.MEMORY, arguments["to"])], mark=FeedbackMark.USED)


def _id(text: str) -> str:
    """Normalize an id, so that equal proposals are equal."""
    return ids.show(ids.MEMORY, ids.parse(ids.MEMORY, text))
