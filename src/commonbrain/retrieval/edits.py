"""Recall for an edit: decisions, conventions and incidents that name the code it touches.

Only names are compared, so that neither an embedder nor a model is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.failures import FAILURE_LABEL
from commonbrain.invalidation.dependents import open_reviews
from commonbrain.model import ids
from commonbrain.model.kinds import KINDS, kinds_where
from commonbrain.model.query import Budget, Candidate, Filter, is_allowed
from commonbrain.model.recall_result import RecallResult, ResultStatus
from commonbrain.retrieval.citations import check_each
from commonbrain.retrieval.order import is_persons_blocker, place_persons
from commonbrain.retrieval.packing import pack
from commonbrain.retrieval.proactive import is_news, record_shown, shown_to
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.storage.interface import QueryScope
from commonbrain.text.code_names import EditedCode, naming_of

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller
    from commonbrain.services import Services
    from commonbrain.storage.store import Transaction

_ITEMS_MAX: Final = 4
"""Few, because the agent did not ask for them."""
_LOOKED_AT: Final = 60
"""Memories read per way to find them; a name that more of them contain is a common one."""


@dataclass(frozen=True, slots=True)
class RecallForEdit:
    """Finds what a caller should know about code that it edits."""

    services: Services
    caller: Caller
    seen: Collection[str] = ()
    """Ids of what the conversation was shown; that of the session is known."""

    def __call__(self, code: EditedCode, *, max_tokens: int) -> RecallResult | None:
        """Return memories that name the code and that the session was not shown; None if none do.

        Raises:
            UnavailableError: the store cannot be read.

        """
        now = self.services.clock.now()
        criteria = Filter(
            kinds=kinds_where(lambda policy: policy.answers_edits),
            project=self.caller.project,
            trust_min=self.services.parameters_for(self.caller).proactive_trust_min,
        )
        scope = QueryScope(caller=self.caller, filter=criteria, now=now)
        unwritten = self.services.journal.unwritten_shown(self.caller)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            named = self._named(tx, code, scope=scope)
            reviews = open_reviews(tx, list(named), as_of=now)
            shown = shown_to(tx, self.caller, unwritten=unwritten)
            fresh = {
                id_: candidate
                for id_, candidate in named.items()
                if is_news(id_, shown=shown, reviews=reviews)
                and ids.show(ids.MEMORY, id_) not in self.seen
            }
            memories = [one.memory for one in fresh.values()]
            reader = ChangeReader(tx=tx, caller=self.caller, now=now, criteria=criteria)
            outdated = reader.successors(memories)
        ranked = sorted(
            (one for id_, one in fresh.items() if id_ not in outdated),
            key=lambda one: (not is_persons_blocker(one.memory), -one.score, -one.memory.id),
        )
        ranked = place_persons(ranked, count=_ITEMS_MAX, is_near=lambda _: True)
        ranked[:_ITEMS_MAX] = check_each(ranked[:_ITEMS_MAX], self.caller)
        packed = pack(ranked, Budget(max_items=_ITEMS_MAX, max_tokens=max_tokens))
        if not packed.items:
            return None
        record_shown(self.services, self.caller, ids=packed.ids, reviews=reviews, at=now)
        return RecallResult(
            items=packed.items,
            tokens=packed.tokens,
            verdict=ResultStatus.FOUND,
            trace_id="",
        )

    def _named(
        self, tx: Transaction, code: EditedCode, *, scope: QueryScope
    ) -> Mapping[int, Candidate]:
        """Return the memories in scope that name the code, by id."""
        by_path = tx.memories.with_references(code.spellings, scope, limit=_LOOKED_AT)
        by_word = tx.index.lexical(code.terms, scope, limit=_LOOKED_AT)
        known = tx.memories.get(list(dict.fromkeys([*by_path, *(hit.id for hit in by_word)])))
        return {
            # Files rank before symbols before folders, and what binds before what informs.
            memory.id: Candidate(
                memory=memory, features={}, score=naming + KINDS[memory.kind].is_binding / 2
            )
            for memory in known.values()
            # What fixed a failure is shown at the failure, not whenever its file is edited.
            if memory.label != FAILURE_LABEL
            and is_allowed(memory, self.caller, criteria=scope.filter, now=scope.now)
            and (naming := naming_of(code, f"{memory.text}\n{memory.keywords}")) is not None
        }
