"""One change under way: the transaction, who acts, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from commonbrain.embeddings.interface import Vectors
from commonbrain.ingestion.embedding import vectors_for
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.invalidation.preview import Unseated, tell_unseated
from commonbrain.invalidation.propagation import spread
from commonbrain.model.errors import Invalid, Unavailable
from commonbrain.model.limits import REASON_CHARS_MAX
from commonbrain.model.memory import FINDABLE_STATES, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller
from commonbrain.retrieval.get import fetch
from commonbrain.security.quotas import UNCOUNTED
from commonbrain.services import House
from commonbrain.storage.change_log import Deed, amend
from commonbrain.storage.interface import Look, Transaction
from commonbrain.text.normalisation import normalise_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What every step of a change needs; `vectors` are of what may become findable again."""

    tx: Transaction
    house: House
    caller: Caller
    now: datetime
    vectors: Mapping[int, Vectors] = field(default_factory=dict[int, Vectors])

    def fetch(self, id_: int) -> Memory:
        """Fetch a memory that the caller may see, or raise `NotFound`."""
        return fetch(self.tx, self.caller, id_=id_)

    def look(self, wanted: Filter) -> Look:
        """Confine a search to what the caller may see now."""
        return Look(caller=self.caller, filter=wanted, now=self.now)

    def deed(self, action: Action, reason: str | None) -> Deed:
        """Say who does what, when and why."""
        return Deed(action=action, caller=self.caller, at=self.now, reason=reason)

    def amend(self, before: Memory, after: Memory, *, deed: Deed) -> None:
        """Bring a memory to another state, with its vectors where it becomes findable.

        Raises:
            Limited: `quota_exceeded`, what was forgotten finds no room any more.

        """
        if before.state is State.FORGOTTEN and after.state not in UNCOUNTED:
            self.house.bounds.take_in(self.caller, self.tx)
        amend(self.tx, before, after=after, deed=deed, vectors=self.vectors.get(before.id))

    def cascade(self) -> Unseated | None:
        """Follow up what this change unseated; to be called last, within its transaction."""
        step = spread(self.tx, self.deed(Action.CASCADE, None))
        return tell_unseated(self.tx, self.caller, step=step, now=self.now)


def vectors_of(house: House, memories: Sequence[Memory]) -> dict[int, Vectors]:
    """Embed what is not findable, before a transaction opens; nothing when the embedder is down."""
    hidden = [one for one in memories if one.state not in FINDABLE_STATES and one.text.strip()]
    try:
        return vectors_for(hidden, house.embedder)
    except Unavailable:
        return {}


def checked_reason(reason: str, house: House) -> str:
    """Give a reason as it may be kept: on one line, without secrets.

    Raises:
        Invalid: it is empty or too long.
        Refused: `secret_detected`.

    """
    stripped = screened(normalise_line(reason) or "", what="reason", house=house)
    if not stripped or len(stripped) > REASON_CHARS_MAX:
        raise Invalid(
            f"The reason has {len(stripped)} characters; 1 to {REASON_CHARS_MAX} are allowed.",
            hint="Say in a sentence why; whoever asks later will read it.",
        )
    return stripped
