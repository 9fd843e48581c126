"""Sessions: what an agent says of its own, and asks of the others', for one caller."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from commonbrain.domain.errors import Invalid
from commonbrain.domain.limits import TASK_CHARS_MAX
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.scope import Caller
from commonbrain.domain.session import Ending
from commonbrain.flows.act import Act
from commonbrain.flows.house import House
from commonbrain.flows.screening import screened
from commonbrain.flows.sessions.registry import own_session, siblings
from commonbrain.flows.sessions.told import Told, peer


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions for one caller.

    Every method answers with a `Told`, and raises `Unavailable` when the store stayed locked; after
    an error everything is as it was.
    """

    house: House
    caller: Caller

    def list(self, *, project: str | None = None) -> Told:
        """List who else is at work, in the caller's project unless another is given."""
        with self._acting() as act:
            others = siblings(act, project or self.caller.project)
            return Told(
                op="list",
                session=self.caller.session,
                sessions=tuple(peer(one, act.now) for one in others),
            )

    def task(self, text: str) -> Told:
        """Say what the session is at.

        Raises:
            Invalid: the text is empty or too long, or the caller has no session.
            Refused: `secret_detected`.

        """
        task = self._line(text)
        self._check_has_session("task")
        with self._acting() as act:
            own = own_session(act)
            act.tx.sessions.save(replace(own, task=task, heartbeat_at=act.now))
        return Told(op="task", session=own.key, task=task)

    def end(self) -> Told:
        """End the session; who calls on begins a new one.

        Raises:
            Invalid: the caller has no session.

        """
        self._check_has_session("end")
        with self._acting() as act:
            own = own_session(act)
            over = replace(own, ended_at=act.now, ending=Ending.ENDED)
            act.tx.sessions.save(over)
        return Told(op="end", session=own.key)

    @contextmanager
    def _acting(self) -> Generator[Act]:
        with self.house.store.begin(self.caller.tenant) as tx:
            yield Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())

    def _check_has_session(self, op: str) -> None:
        if self.caller.session is None:
            raise Invalid(
                f"session {op} needs a session.",
                hint="Name it by --session or COMMONBRAIN_SESSION; `brain boot` gives a key.",
            )

    def _line(self, text: str) -> str:
        line = screened(normalise_line(text) or "", what="task", house=self.house)
        if not line or len(line) > TASK_CHARS_MAX:
            raise Invalid(
                f"The task has {len(line)} characters; 1 to {TASK_CHARS_MAX} are allowed.",
                hint="Say in a sentence what you are at.",
            )
        return line
