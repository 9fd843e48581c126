"""Revise: a memory is replaced by a newer one and stays readable as what was believed before."""

from dataclasses import dataclass, replace
from typing import Unpack

from commonbrain.domain import ids
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import Detail, RuleDetail, kind_and_label
from commonbrain.domain.memory import CURRENT_STATES, Draft, Memory, State
from commonbrain.domain.query import Filter
from commonbrain.domain.revision import Action, superseded
from commonbrain.domain.scope import Caller, Scope
from commonbrain.flows.forget import check_authority, checked_reason
from commonbrain.flows.get import fetch, head_of
from commonbrain.flows.house import House
from commonbrain.flows.recording import Deed, amend
from commonbrain.flows.remember.outcome import Outcome, Status, rejected
from commonbrain.flows.remember.pipeline import Course, DraftFields, Remember, draft_of
from commonbrain.flows.remember.prepare import Prepared, embed, prepare
from commonbrain.ports.store import Look, Transaction


@dataclass(frozen=True, slots=True)
class Revise:
    """Revision for one caller."""

    house: House
    caller: Caller

    def supersede(
        self,
        id: str,  # noqa: A002 the public name is id
        text: str,
        *,
        reason: str,
        **known: Unpack[DraftFields],
    ) -> Outcome:
        """Replace a current memory by a new text; what is not given is taken from the old one.

        Returns:
            The outcome of the new text at the gate; unless it is `stored`, the old one still holds.

        Raises:
            Invalid: the text is not an id, or there is no reason.
            NotFound: there is none, or the caller may not see it.
            Refused: `already_superseded` (names the head), the new scope is narrower, or the
                caller lacks the authority.
            Unavailable: the store stayed locked; the old one still holds.

        """
        why = checked_reason(reason)
        old_id = ids.parse(ids.MEMORY, id)
        with self.house.store.snapshot(self.caller.tenant) as tx:
            old = fetch(tx, self.caller, id_=old_id)
        draft = _inherit(draft_of(text, **known), old)
        prepared = prepare(draft, self.caller, house=self.house)
        if not isinstance(prepared, Prepared):
            return rejected(prepared)
        [ready] = embed([prepared], self.house.embedder)
        _check_stays_seen(old, ready.scope)
        with self.house.store.begin(self.caller.tenant) as tx:
            return self._replace(tx, ready, old_id=old_id, reason=why)

    def _replace(self, tx: Transaction, prepared: Prepared, *, old_id: int, reason: str) -> Outcome:
        """Store the new and retire the old together, if the old still heads its chain."""
        old = fetch(tx, self.caller, id_=old_id)
        check_authority(self.caller, old)
        _check_is_head(tx, old)
        _check_trust(prepared, old)
        now = self.house.clock.now()
        look = Look(caller=self.caller, filter=Filter(), now=now)
        course = Course(besides=frozenset({old_id}), revises=old.superseded_count + 1)
        writer = Remember(self.house, self.caller)
        outcome = writer.settle(tx, prepared, look=look, course=course)
        if outcome.status is not Status.STORED or outcome.id is None:
            return outcome
        new_id = ids.parse(ids.MEMORY, outcome.id)
        deed = Deed(action=Action.SUPERSEDE, caller=self.caller, at=now, reason=reason)
        amend(tx, old, after=superseded(old, by=new_id, at=now), deed=deed)
        return outcome


def _inherit(draft: Draft, old: Memory) -> Draft:
    """Take from the old memory what the revision leaves open; never pin, trigger or headline."""
    named = kind_and_label(draft.kind) if draft.kind else None
    stays = draft.kind is None or (named is not None and named[0] is old.kind)
    return replace(
        draft,
        kind=draft.kind or old.kind,
        label=draft.label or old.label,
        project=draft.project or old.project,
        scope=draft.scope or old.scope,
        tags=draft.tags or old.tags,
        source_ref=draft.source_ref or old.source_ref,
        detail=draft.detail or (_without_trigger(old.detail) if stays else None),
    )


def _without_trigger(detail: Detail) -> Detail:
    return replace(detail, skill=None) if isinstance(detail, RuleDetail) else detail


def _check_stays_seen(old: Memory, scope: Scope) -> None:
    """Keep a chain visible to all who saw its beginning; the banner of the old names the new."""
    if scope is Scope.PRIVATE and old.scope is not Scope.PRIVATE:
        raise Refused(
            f"This memory has scope {old.scope}; a private one cannot replace it.",
            code="scope_denied",
            hint=f"Supersede it with scope {old.scope}, or remember your own beside it.",
        )


def _check_trust(prepared: Prepared, old: Memory) -> None:
    """Keep what is trusted more from being retired by what is trusted less."""
    if prepared.trust.weight >= old.trust.weight:
        return
    raise Refused(
        f"The new text is trusted as {prepared.trust}, the memory it replaces as {old.trust}.",
        code="trust_override_denied",
        hint="Remember it beside the old one, or vouch for it with the old one's trust.",
    )


def _check_is_head(tx: Transaction, old: Memory) -> None:
    if old.state in CURRENT_STATES:
        return
    if old.state is not State.SUPERSEDED:
        raise Refused(
            f"{ids.show(ids.MEMORY, old.id)} is {old.state}: there is nothing to revise.",
            code="not_current",
            hint="Remember the new text instead.",
        )
    head = head_of(tx, old)
    raise Refused(
        f"{ids.show(ids.MEMORY, old.id)} is {old.state} already.",
        code="already_superseded",
        hint=f"Revise the one that holds now: {ids.show(ids.MEMORY, head.id)}.",
    )
