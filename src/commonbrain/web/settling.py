"""Decisions on items of the review queue: from a form to the operation that carries it out.

Two people may look at the same item. Whether it is still open is read from the memories before a
decision is carried out, so that whoever comes second sees what was decided instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import ImmutableMultiDict

from commonbrain.history.review_queue import ReviewCategory
from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.links import DISAGREEMENTS, DISTINCT_LINKS
from commonbrain.model.memory import AWAITING_STATES
from commonbrain.model.revision import Action
from commonbrain.model.scope import Scope
from commonbrain.retrieval.citations import are_missing
from commonbrain.retrieval.get import MemoryView
from commonbrain.web.rendering import ago, words_of
from commonbrain.web.visit import OperationForm, Visit, read_memories

_VIEWS: Final = ["links", "policy", "history"]
_NO_DECISIONS: Final = frozenset(
    {
        Action.CREATE,
        Action.ANNOTATE,
        Action.RATE,
        Action.PIN,
        Action.RETAG,
        Action.ACK,
        Action.CLAIM,
        Action.RELEASE,
        Action.RECUR,
    }
)
"""Changes that settle nothing."""
_REASON_CHARS: Final = 200
"""Of the reason of another person, in a notice."""
_PAIR: Final = 2

_PAST: Final[Mapping[Action, str]] = {
    Action.APPROVE: "approved",
    Action.FORGET: "forgot",
    Action.KEEP_BOTH: "kept",
    Action.REJECT: "rejected",
    Action.RESTORE: "restored",
    Action.REVIEW: "confirmed",
    Action.SUPERSEDE: "superseded",
    Action.UNDO: "undid a change of",
}

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewForm:
    """A decision as the form of an item gives it."""

    category: ReviewCategory
    ids: tuple[str, ...]
    decision: str
    fields: Fields
    """The other fields: the reason, and what some decisions need."""

    @classmethod
    def of(cls, form: ImmutableMultiDict[str, str]) -> "ReviewForm":
        """Read a form.

        Raises:
            InvalidInputError: the category is unknown, or the number of ids is wrong.

        """
        category = parse_choice(ReviewCategory, form.get("category", ""))
        return cls(
            category=category,
            ids=parse_item(form.get("item", ""), category=category),
            decision=form.get("decision", ""),
            fields={name: form.get(name, "").strip() for name in ("reason", "text", "version")}
            | {"projects": ",".join(filter(None, form.getlist("projects")))},
        )


def parse_item(text: str, *, category: ReviewCategory) -> tuple[str, ...]:
    """Return the ids that name an item: two for a pair, otherwise one.

    Raises:
        InvalidInputError: it is not that many.

    """
    given = tuple(one.strip() for one in text.split(",") if one.strip())
    count = _PAIR if category in _PAIRS else 1
    if len(given) != count:
        raise InvalidInputError(
            f"{text[:60]!r} is not an item of {words_of(category)}.",
            hint=f"Give {count} ids, separated by commas.",
        )
    return given


def read_item(visit: Visit, item_ids: Sequence[str]) -> tuple[MemoryView, ...]:
    """Return the memories of an item, with what tells whether it is open.

    Raises:
        NotFoundError: one of them does not exist, or the person may not see it.

    """
    return read_memories(visit, item_ids, views=_VIEWS)


def is_open(category: ReviewCategory, memories: Sequence[MemoryView]) -> bool:
    """Return whether an item still needs a decision."""
    first, last = memories[0], memories[-1]
    are_current = all(one.policy is not None and one.policy.is_current for one in memories)
    match category:
        case ReviewCategory.CONFLICTS:
            is_apart = None not in {first.project, last.project} and first.project != last.project
            return are_current and not is_apart and _are_linked(first, last, types=DISAGREEMENTS)
        case ReviewCategory.NEEDS_REVIEW:
            needs_review = first.policy is not None and first.policy.needs_review
            return are_current and (needs_review or are_missing(first.cites))
        case ReviewCategory.PROPOSALS:
            return first.state in AWAITING_STATES
        case ReviewCategory.DUPLICATES:
            return are_current and not _are_linked(first, last, types=DISTINCT_LINKS)


def what_happened(visit: Visit, memories: Sequence[MemoryView]) -> str:
    """Say who settled an item, how, when and why, from the history of its memories."""
    changes = {(one.id, one.at, one.action): one for view in memories for one in view.history or ()}
    decisions = [one for one in changes.values() if one.action not in _NO_DECISIONS]
    if not decisions:
        return "It needs no decision any more."
    change = max(decisions, key=lambda change: change.at)
    reason = f": {change.reason[:_REASON_CHARS]}" if change.reason else ""
    done = _PAST.get(change.action, "changed")
    return f"{change.agent} {done} {change.id} {ago(change.at, visit.now)}{reason}"


def _are_linked(first: MemoryView, last: MemoryView, *, types: Sequence[str]) -> bool:
    links = [(one.id, one.type) for view in (first, last) for one in view.links or ()]
    return any(id_ in {first.id, last.id} and type_ in types for id_, type_ in links)


def plan_decision(form: ReviewForm, memories: Sequence[MemoryView]) -> OperationForm:
    """Return the form of the operation that carries out a decision.

    Raises:
        InvalidInputError: the category has no such decision.

    """
    decisions = _PAIRS.get(form.category, _SINGLES.get(form.category, frozenset()))
    if form.decision not in decisions:
        raise InvalidInputError(
            f"{form.decision[:40]!r} is not a decision on {words_of(form.category)}.",
            hint=f"Choose from {', '.join(sorted(decisions))}.",
        )
    if form.category in _PAIRS:
        return _decide_on_pair(form, memories)
    return _decide_on_single(form, memories[0])


_PAIRS: Final = {
    ReviewCategory.CONFLICTS: frozenset({"first", "second", "both", "apart"}),
    ReviewCategory.DUPLICATES: frozenset({"first", "second", "both"}),
}
"""Decisions on two memories."""
_SINGLES: Final = {
    ReviewCategory.NEEDS_REVIEW: frozenset({"holds", "correct", "forget"}),
    ReviewCategory.PROPOSALS: frozenset({"approve", "reject"}),
}
"""Decisions on one memory."""


def _decide_on_pair(form: ReviewForm, memories: Sequence[MemoryView]) -> OperationForm:
    first, second = memories
    reason = {"reason": form.fields["reason"]}
    both = {"op": "keep_both", "id": first.id, "other": second.id, **reason}
    match form.decision:
        case "both":
            return OperationForm(operation="revise", fields=both)
        case "apart":
            fields = {**both, "value": form.fields["projects"]}
            return OperationForm(operation="revise", fields=fields)
        case _:
            preferred, other = (first, second) if form.decision == "first" else (second, first)
            if form.category is ReviewCategory.CONFLICTS and can_replace(preferred, other):
                fields = {"op": "resolve", "id": preferred.id, "other": other.id, **reason}
                return OperationForm(operation="revise", fields=fields)
            return _forget(other, reason)


def can_replace(preferred: MemoryView, other: MemoryView) -> bool:
    """Return whether a memory can supersede the other of a conflict.

    A chain has no branches, and a private memory cannot continue a chain that others see.
    """
    is_hidden = preferred.scope is Scope.PRIVATE and other.scope is not Scope.PRIVATE
    return not preferred.superseded_count and not is_hidden


def _decide_on_single(form: ReviewForm, memory: MemoryView) -> OperationForm:
    reason = {"reason": form.fields["reason"]}
    match form.decision:
        case "correct":
            fields = {"op": "supersede", "id": memory.id, **reason}
            fields |= {name: form.fields[name] for name in ("text", "version")}
            return OperationForm(operation="revise", fields=fields)
        case "forget":
            return _forget(memory, reason)
        case _:
            fields = {"op": _VERBS[form.decision], "id": memory.id, **reason}
            return OperationForm(operation="revise", fields=fields)


def _forget(memory: MemoryView, reason: Fields) -> OperationForm:
    fields = {"op": "forget", "ids": memory.id, **reason}
    return OperationForm(operation="forget", fields=fields)


_VERBS: Final = {"holds": "review", "approve": "approve", "reject": "reject"}
"""Decisions that are one verb of revise."""
