"""Forget: a tombstone for one memory, out of every index in the same transaction."""

from dataclasses import dataclass, replace

from commonbrain.domain import ids
from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.limits import REASON_CHARS_MAX
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller, check_may_write
from commonbrain.flows.get import FORGOTTEN, fetch
from commonbrain.flows.house import House
from commonbrain.flows.recording import Deed, amend


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was forgotten; `was_forgotten_before` when there was nothing left to do."""

    id: str
    headline: str
    reason: str
    was_forgotten_before: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """Forgetting for one caller."""

    house: House
    caller: Caller

    def __call__(self, id: str, *, reason: str) -> Forgotten:  # noqa: A002 the public name is id
        """Forget one memory: recall never returns it again, get shows a banner.

        Raises:
            Invalid: the text is not an id, or there is no reason.
            NotFound: there is none, or the caller may not see it.
            Refused: the caller may not write its scope, or it is trusted more than the caller.
            Unavailable: the store stayed locked; the memory is as it was.

        """
        why = checked_reason(reason)
        with self.house.store.begin(self.caller.tenant) as tx:
            memory = fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id))
            check_authority(self.caller, memory)
            was_forgotten_before = memory.state is State.FORGOTTEN
            done = Forgotten(
                id=ids.show(ids.MEMORY, memory.id),
                headline=FORGOTTEN if was_forgotten_before else memory.headline,
                reason=why,
                was_forgotten_before=was_forgotten_before,
            )
            if done.was_forgotten_before:
                return done
            now = self.house.clock.now()
            deed = Deed(action=Action.FORGET, caller=self.caller, at=now, reason=why)
            amend(tx, memory, after=replace(memory, state=State.FORGOTTEN), deed=deed)
        return done


def checked_reason(reason: str) -> str:
    """Give a reason without surrounding space.

    Raises:
        Invalid: it is empty or too long.

    """
    stripped = normalise_line(reason) or ""
    if not stripped or len(stripped) > REASON_CHARS_MAX:
        raise Invalid(
            f"The reason has {len(stripped)} characters; 1 to {REASON_CHARS_MAX} are allowed.",
            hint="Say in a sentence why; whoever asks later will read it.",
        )
    return stripped


def check_authority(caller: Caller, memory: Memory) -> None:
    """Let a caller change what it may write and what is trusted no more than itself.

    Raises:
        Refused: one of the two fails.

    """
    check_may_write(caller, memory.scope)
    if memory.trust.weight > caller.trust_ceiling.weight:
        raise Refused(
            f"This memory is trusted as {memory.trust}, the caller as {caller.trust_ceiling}.",
            code="trust_override_denied",
            hint="Ask somebody with that trust, or annotate it.",
        )
