"""A query scope as SQL: the one place where tenant, visibility and filter become conditions."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    String,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
    union_all,
)

from commonbrain.model.kinds import Kind
from commonbrain.model.listing import NOT_SET, ListFilter, ListScope
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, FINDABLE_STATES, State
from commonbrain.model.query import NAME_SIGNS, Filter, name_forms
from commonbrain.model.scope import Scope, Trust
from commonbrain.model.timestamps import EPOCH
from commonbrain.model.values import replace
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.schema.activity import receipts
from commonbrain.storage.schema.memories import (
    DETAILS,
    EntityType,
    changes,
    entities,
    memories,
    reviews,
)
from commonbrain.storage.schema.types import Instant
from commonbrain.storage.sql.statements import exists_in

_BUILT_MAX: Final = 256
TENANT: Final[BindParameter[str]] = bindparam("tenant", type_=String())
VIEWER: Final[BindParameter[str]] = bindparam("viewer", type_=String())
_NOW: Final[BindParameter[datetime]] = bindparam("now", type_=Instant())


def given(scope: QueryScope, tenant: str) -> dict[str, Any]:
    """Return the parameters of `allowed` and `within`."""
    return {"tenant": tenant, "viewer": scope.caller.agent, "now": scope.now}


@lru_cache(_BUILT_MAX)
def allowed(criteria: Filter) -> Select[int] | CompoundSelect[int]:
    """Select the ids that a scope allows, with tenant, viewer and time as parameters.

    Building a statement costs more than running it, so it is built once for all scopes that differ
    only in these: a server has hundreds of viewers.
    """
    ids = select(memories.c.id).where(*_open_to(criteria))
    # One part per project, because no index serves two values of which one is NULL.
    parts = [ids.where(one) for one in _projects(criteria)]
    return union_all(*parts) if parts else ids


@lru_cache(_BUILT_MAX)
def within(criteria: Filter) -> ColumnElement[bool]:
    """Return which rows a scope allows, with tenant, viewer and time as parameters.

    The model checks each row again at the end.
    """
    projects = _projects(criteria)
    return and_(*_open_to(criteria), *([or_(*projects)] if projects else []))


@lru_cache(_BUILT_MAX)
def first(criteria: Filter) -> Select[int]:
    """Select one id that a scope allows; a rare state is found in the order of its index."""
    row = memories.c
    one = select(row.id).where(within(criteria)).limit(1)
    is_rare = criteria.states == (State.ARCHIVED,)
    return one.order_by(row.project, row.kind, row.state) if is_rare else one


@lru_cache(_BUILT_MAX)
def listed(criteria: ListFilter) -> ColumnElement[bool]:
    """Return which rows a list has, with tenant, viewer and times as parameters.

    The times of the filter are parameters of their names; here they only have to be given or not.
    """
    return and_(in_tenant(), open_to(VIEWER), *_in_list(criteria))


def in_tenant() -> ColumnElement[bool]:
    """Return which rows are of the tenant, with the condition of the index of lists."""
    return and_(memories.c.tenant_id == TENANT, memories.c.scope != literal_column("''"))


def indexed(criteria: Filter) -> Iterator[ColumnElement[bool]]:
    """Yield what a filter implies in the words of partial indexes, which a list can then use."""
    row = memories.c
    if is_awaiting(criteria):
        yield row.state.in_([_word(state) for state in sorted(AWAITING_STATES)])
    if criteria.matched_kinds == (Kind.RULE,):
        yield row.kind == _word(Kind.RULE)


def _word(word: State | Kind) -> ColumnElement[str]:
    return literal_column(f"'{word}'", String())


def is_awaiting(criteria: Filter) -> bool:
    """Return whether a filter selects only memories that wait for a decision."""
    return bool(criteria.states) and {*criteria.states} <= AWAITING_STATES


def is_tag() -> ColumnElement[bool]:
    """Return which names are tags, in the words of their index."""
    return entities.c.type == literal_column(f"'{EntityType.TAG}'")


def given_list(scope: ListScope, tenant: str) -> dict[str, Any]:
    """Return the parameters of `listed`."""
    criteria = scope.filter
    return {
        "tenant": tenant,
        "viewer": scope.caller.agent,
        "now": scope.now,
        "since": criteria.since,
        "until": criteria.until,
        "recorded_since": criteria.recorded_since,
        "recorded_until": criteria.recorded_until,
    }


def timeless(criteria: ListFilter) -> ListFilter:
    """Return a filter with one time for all others, so that few statements are built."""
    return replace(
        criteria, **{name: EPOCH for name in _TIMES if getattr(criteria, name) is not None}
    )


_TIMES: Final = ("since", "until", "recorded_since", "recorded_until")


def unindexed(column: ColumnElement[Any]) -> ColumnElement[int]:
    """Return a column of numbers as an expression, for which no index is used."""
    return type_coerce(column, BigInteger()) + literal_column("0")


def _in_list(criteria: ListFilter) -> Iterator[ColumnElement[bool]]:
    row = memories.c
    yield from _projected(
        Filter(
            kinds=criteria.kinds,
            subtypes=criteria.subtypes,
            scope=criteria.scope,
            session=criteria.session,
            agent=criteria.agent,
        )
    )
    if criteria.project is not None:
        yield _is_one_of(row.project, (criteria.project,))
    if criteria.labels:
        yield _is_one_of(row.label, criteria.labels)
    if len(believed := believed_from(criteria.trust_min)) < len(Trust):
        yield row.trust.in_(believed)
    if criteria.pinned is not None:
        yield row.pinned == criteria.pinned
    if criteria.listed_states != frozenset(State):
        yield _is_in_state(criteria.listed_states)
    yield from _in_periods(criteria)
    yield from _related_in_list(criteria)


def _in_periods(criteria: ListFilter) -> Iterator[ColumnElement[bool]]:
    row = memories.c
    for prefix, column in (("", row.occurred_at), ("recorded_", row.recorded_at)):
        # With an index on the time alone, SQLite would look up every row.
        time = unindexed(column)
        if getattr(criteria, f"{prefix}since") is not None:
            yield time >= bindparam(f"{prefix}since", type_=Instant())
        if getattr(criteria, f"{prefix}until") is not None:
            yield time <= bindparam(f"{prefix}until", type_=Instant())


def _related_in_list(criteria: ListFilter) -> Iterator[ColumnElement[bool]]:
    """Return the conditions on related rows, which are selected once: a list reads most rows."""
    row = memories.c
    if criteria.needs_review:
        yield _needs_review()
    for tag in criteria.tags:
        named = entities.c
        is_named = named.tenant_id == TENANT, is_tag(), named.name == tag
        yield row.id.in_(select(named.memory_id).where(*is_named))
    if criteria.tags:
        yield shows_tags()


def _needs_review() -> ColumnElement[bool]:
    """Return which rows have an open review, by the few that do."""
    is_open = reviews.c.tenant_id == TENANT, reviews.c.settled_at.is_(None)
    return memories.c.id.in_(select(reviews.c.memory_id).where(*is_open))


def shows_tags() -> ColumnElement[bool]:
    """Return which rows are shown with their tags, as those of forgotten memories are not."""
    return memories.c.state != State.FORGOTTEN


def _is_one_of(column: ColumnElement[str | None], names: Sequence[str]) -> ColumnElement[bool]:
    unset = [column.is_(None)] if NOT_SET in names else []
    return or_(column.in_([name for name in names if name != NOT_SET]), *unset)


def _is_in_state(states: frozenset[State]) -> ColumnElement[bool]:
    """Return which rows a list shows with one of these states; see `state_in_list`."""
    row = memories.c
    is_current = row.state.in_(sorted(CURRENT_STATES))
    either: list[ColumnElement[bool]] = [row.state.in_(sorted(states - CURRENT_STATES))]
    if current := states & CURRENT_STATES:
        unexpired = or_(row.expires_at.is_(None), row.expires_at > _NOW)
        either.append(and_(row.state.in_(sorted(current)), unexpired))
    if State.EXPIRED in states:
        either.append(and_(is_current, row.expires_at <= _NOW))
    return or_(*either)


def _open_to(criteria: Filter) -> list[ColumnElement[bool]]:
    """Return every condition of a scope except its project."""
    row = memories.c
    believed = believed_from(criteria.trust_min)
    conditions = [
        row.tenant_id == TENANT,
        open_to(VIEWER),
        *_believed(criteria),
        *_projected(criteria),
        *_related(criteria),
    ]
    if len(believed) < len(Trust):
        conditions.append(row.trust.in_(believed))
    return conditions


def open_to(viewer: str | BindParameter[str]) -> ColumnElement[bool]:
    """Return which rows of its tenant an agent may see."""
    row = memories.c
    is_to = receipts.c.agent == viewer, receipts.c.message_id == row.id
    is_shared = exists_in(receipts, *is_to, of=memories)
    return or_(row.scope != Scope.PRIVATE, row.agent == viewer, is_shared)


def believed_from(trust_min: float) -> list[Trust]:
    """Return the trust values with at least this weight."""
    return [trust for trust in Trust if trust.weight >= trust_min]


def _projects(criteria: Filter) -> list[ColumnElement[bool]]:
    """Return the two ways to belong to a project; none if all projects are allowed."""
    row = memories.c
    return (
        [] if criteria.project is None else [row.project == criteria.project, row.project.is_(None)]
    )


def _believed(criteria: Filter) -> list[ColumnElement[bool]]:
    row, as_of = memories.c, criteria.as_of
    time = _NOW if as_of is None else as_of
    unexpired = or_(row.expires_at.is_(None), row.expires_at > time)
    if as_of is None:
        return [unexpired, row.state.in_(sorted(criteria.states or CURRENT_STATES))]
    is_held = and_(
        row.state.in_(sorted(CURRENT_STATES)),
        func.coalesce(row.believed_since, row.recorded_at) <= as_of,
    )
    period = changes.c
    is_then = period.believed_since <= as_of, period.believed_until > as_of
    was_held = exists_in(changes, period.memory_id == row.id, *is_then, of=memories)
    return [
        unexpired,
        row.state.in_(sorted(FINDABLE_STATES)),
        or_(is_held, was_held),
    ]


def _projected(criteria: Filter) -> Iterator[ColumnElement[bool]]:
    """Return the conditions of a filter on the row itself."""
    row = memories.c
    if criteria.kinds or criteria.subtypes:
        whole = [row.kind.in_(criteria.kinds)] if criteria.kinds else []
        parts = [and_(row.kind == kind, row.label == label) for kind, label in criteria.subtypes]
        yield or_(*whole, *parts)
    if criteria.field is not None:
        yield row.kind == Kind.ATOM
    if criteria.labels:
        yield row.label.in_(criteria.labels)
    for name in ("scope", "session", "agent", "authority"):
        given = getattr(criteria, name)
        if given is not None:
            yield row[name] == given
    if criteria.since is not None:
        yield row.occurred_at >= criteria.since
    if criteria.until is not None:
        yield row.occurred_at <= criteria.until
    if criteria.min_confidence > 0:
        yield row.confidence >= criteria.min_confidence
    if criteria.archived_salience_min > 0:
        is_salient = row.salience >= criteria.archived_salience_min
        yield or_(row.state != State.ARCHIVED, is_salient)


def _related(criteria: Filter) -> Iterator[ColumnElement[bool]]:
    """Return the conditions of a filter on related rows."""
    if criteria.thread is not None:
        yield _is_of_thread(criteria.thread)
    if criteria.field is not None:
        atoms = DETAILS[Kind.ATOM]
        has_field = atoms.c.memory_id == memories.c.id, atoms.c[criteria.field] != ""
        yield exists_in(atoms, *has_field, of=memories)
    if criteria.people:
        forms = [form for name in criteria.people for form in name_forms(name)]
        yield _is_named(EntityType.PERSON, forms, begins=[f + s for f in forms for s in NAME_SIGNS])
    if criteria.needs_review:
        yield _needs_review()
    for tag in criteria.tags:
        yield _is_named(EntityType.TAG, (tag,))


def _is_named(
    type_: EntityType, names: Sequence[str], *, begins: Sequence[str] = ()
) -> ColumnElement[bool]:
    """Return the condition that a memory has one of these names, or one that begins so."""
    named = entities.c
    prefixes = (named.name.startswith(begin, autoescape=True) for begin in begins)
    is_one = named.type == type_, or_(named.name.in_(names), *prefixes)
    return exists_in(entities, named.memory_id == memories.c.id, *is_one, of=memories)


def _is_of_thread(thread_id: int) -> ColumnElement[bool]:
    """Return the condition that a memory is a message of a thread, by the index of threads."""
    message = DETAILS[Kind.MESSAGE].c
    listed = select(message.memory_id).where(
        message.tenant_id == TENANT, message.thread_id == thread_id
    )
    return memories.c.id.in_(listed)
