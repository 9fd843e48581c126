"""What the user says in a prompt: stored at once, or proposed to a person.

Repeating it changes nothing, and what a person declined is not proposed again.
"""

from collections.abc import Iterable

from commonbrain.ingestion.batch import DEFAULT_OPTIONS, WriteContext, WriteOptions
from commonbrain.ingestion.change_detection import detect_changes
from commonbrain.ingestion.commit import build_memory
from commonbrain.ingestion.deduplication import find_neighbours
from commonbrain.ingestion.pending_statements import PENDING_MAX, SAID, pending_statements
from commonbrain.ingestion.preparation import PreparedDraft, draft_of
from commonbrain.ingestion.service import Remember
from commonbrain.model.kinds import Kind, Severity, kind_and_label
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX
from commonbrain.model.memory import Memory, State, semantic_hash
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Trust
from commonbrain.model.values import replace
from commonbrain.security.authority import Proposal
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Transaction
from commonbrain.text.classification import severity_of
from commonbrain.text.user_statements import UserStatement


def store_statements(
    remember: Remember, statements: Iterable[UserStatement], *, source: str | None
) -> None:
    """Store what the user said that is to last, or propose it.

    At once is stored what a person says in so many words is to last. A prohibition that would block
    is proposed: to misread one costs most. So is what changes a memory.
    """
    caller = remember.caller
    for statement in statements:
        blocks = statement.kind == Kind.RULE and severity_of(statement.text) is Severity.BLOCKER
        is_sure = statement.is_explicit and not blocks
        is_at_once = caller.authority is Authority.PERSON and is_sure
        _store(remember, statement, source=source, is_at_once=is_at_once)


def _store(
    remember: Remember, statement: UserStatement, *, source: str | None, is_at_once: bool
) -> None:
    services = remember.services
    draft = draft_of(
        statement.text,
        kind=statement.kind,
        source_ref=source and source[:SOURCE_REF_CHARS_MAX],
        auto_captured=not is_at_once,
    )
    batch = remember.prepare([draft], DEFAULT_OPTIONS)
    if not batch.ready:
        # Its text is refused, such as one with a secret.
        return
    old = _changed(remember, batch.ready[0])
    # What the agent has to acknowledge does not bind its user: this is no write of its own.
    if is_at_once and old is None:
        remember.store(replace(batch, options=WriteOptions(is_user_write=False)))
        return
    with services.store.snapshot(remember.caller.tenant) as tx:
        scope = QueryScope(
            caller=remember.caller, filter=Filter(trust_min=0), now=services.clock.now()
        )
        is_new = _is_new(tx, scope, statement=statement)
    if is_new:
        remember.store(replace(batch, options=_as_proposal(old)))


def _changed(remember: Remember, prepared: PreparedDraft) -> Memory | None:
    """Return the memory that a statement changes, once confirmed."""
    services, caller, now = remember.services, remember.caller, remember.services.clock.now()
    with services.store.snapshot(caller.tenant) as tx:
        context = WriteContext(
            tx=tx, services=services, caller=caller, now=now, options=DEFAULT_OPTIONS
        )
        space = services.store.space.under(prepared.parameters)
        near = find_neighbours(context, prepared, space=space)
        confirmed = replace(
            build_memory(prepared, caller, now=now),
            state=State.ACTIVE,
            trust=Trust.TRUSTED_TOOL,
            authority=Authority.PERSON,
        )
        changes = detect_changes(context, confirmed, near=near)
    # One of every project stays for the others.
    alike = (confirmed.kind, confirmed.project, confirmed.scope)
    older = (one.older for one in changes)
    return next((one for one in older if (one.kind, one.project, one.scope) == alike), None)


def _as_proposal(old: Memory | None) -> WriteOptions:
    """Return how to store a statement that waits: it replaces what it changes once confirmed."""
    if old is None:
        return WriteOptions(proposal={SAID: True}, is_user_write=False)
    supersedes = Proposal(
        op=Action.SUPERSEDE, id=old.id, reason="said by the user", arguments={"supports": False}
    )
    return WriteOptions(
        proposal={SAID: True, **supersedes.payload()},
        exclude_ids=frozenset({old.id}),
        revision_number=old.superseded_count + 1,
        is_user_write=False,
    )


def _is_new(tx: Transaction, scope: QueryScope, *, statement: UserStatement) -> bool:
    """Return whether a statement neither waits, nor was declined, nor finds the queue full."""
    named = kind_and_label(statement.kind)
    kind = named[0] if named else Kind.FACT
    hashed = semantic_hash(kind, statement.text)
    same = tx.memories.by_hash(kind, hashed, in_any_state=True)
    here = (one for one in same if one.project == scope.caller.project and SAID in one.payload)
    was_said = any(one.believed_since is None for one in here)
    return not was_said and len(pending_statements(tx, scope, limit=PENDING_MAX)) < PENDING_MAX
