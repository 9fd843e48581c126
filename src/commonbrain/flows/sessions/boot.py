"""Boot: an agent begins, and is told what binds it, what is owed and who else is there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from commonbrain.domain.boot import brief
from commonbrain.domain.briefing import Briefing
from commonbrain.domain.errors import Refused, Unavailable
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import NAME_CHARS_MAX, QUERY_CHARS_MAX, TASK_CHARS_MAX
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.scope import Caller
from commonbrain.flows.act import Act
from commonbrain.flows.house import House
from commonbrain.flows.screening import screened
from commonbrain.flows.sessions.early import hand_over
from commonbrain.flows.sessions.gathering import awake, gather
from commonbrain.flows.sessions.registry import open_session
from commonbrain.ports.models import Matrix


@dataclass(frozen=True, slots=True)
class Boot:
    """Booting for one caller."""

    house: House
    caller: Caller

    def __call__(
        self, project: str | None = None, task: str | None = None, *, client: str | None = None
    ) -> Briefing:
        """Begin a session and say what its agent should know, in at most 2,000 tokens.

        Args:
            project: where the agent is at work; by default the caller's own.
            task: what it is at, in at most 2,000 characters: chooses the patterns shown.
            client: the program it runs in, for people.

        Returns:
            The briefing. Where the store takes no writes there is no session, which `degraded`
            says, as it does when the embedder did not answer.

        Raises:
            Invalid: a name is too long or not printable.
            Refused: `limit_exceeded`, the task is too long; `secret_detected`.
            Unavailable: the store cannot be read.

        """
        said = self._said(task)
        caller = self._caller(project or self.caller.project, client)
        degraded: list[str] = []
        try:
            with self.house.store.begin(caller.tenant) as tx:
                act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
                opened = open_session(
                    act, contact=caller.contact, task=said[:TASK_CHARS_MAX] or None
                )
            caller = replace(caller, session=opened.key)
            hand_over(self.house, caller)
        except Unavailable as error:
            degraded.append(f"session: {error.code}, {error.message}")
        meaning = self._meaning(caller, said, degraded=degraded)
        with self.house.store.snapshot(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            material = gather(act, task=said, meaning=meaning)
        return brief(replace(material, degraded=tuple(degraded)))

    def _said(self, task: str | None) -> str:
        """Give the task as it may be kept, on one line."""
        if task is not None and len(task) > QUERY_CHARS_MAX:
            raise Refused(
                f"The task has {len(task):,} characters; {QUERY_CHARS_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Say in a sentence or two what you are at.",
            )
        return screened(normalise_line(task or "") or "", what="task", house=self.house)

    def _caller(self, project: str | None, client: str | None) -> Caller:
        named = normalise_line(client or "")
        contact = self.caller.contact
        if named:
            contact = replace(contact, client=named[:NAME_CHARS_MAX])
        return replace(self.caller, project=project, contact=contact)

    def _meaning(self, caller: Caller, task: str, *, degraded: list[str]) -> Matrix | None:
        """Embed the task once, and only where there are patterns to choose by it."""
        if not task:
            return None
        with self.house.store.snapshot(caller.tenant) as tx:
            act = Act(tx=tx, house=self.house, caller=caller, now=self.house.clock.now())
            if not tx.board.has_patterns(awake(act, Kind.RULE)):
                return None
        try:
            return self.house.embedder.query(task)
        except Unavailable as error:
            degraded.append(f"patterns: {error.code}, {error.message}")
            return None
