"""Sessions: what an agent says of its own, and asks of the others', for one caller."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from commonbrain.consolidation.clustering import CLUSTER_MIN
from commonbrain.coordination.checkpoint import binding, checked_action, cooled_down, vector_of
from commonbrain.coordination.handoff import Handoff, hand_over
from commonbrain.coordination.leases import claim, owed, release
from commonbrain.coordination.registry import (
    Swept,
    leave,
    look_around,
    meet,
    needs_writing,
    own_session,
    siblings,
    write_down,
)
from commonbrain.coordination.scratchpad import checked_note, list_notes, put_note
from commonbrain.coordination.session_views import Told, peer, shown_note
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.secret_scanning import screened
from commonbrain.model.errors import Invalid, Unavailable
from commonbrain.model.jobs import Job
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import TASK_CHARS_MAX, TASKS_SHOWN_MAX
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller, Role
from commonbrain.model.sessions import Ending, Session
from commonbrain.model.tasks import LEASE_MINUTES_DEFAULT
from commonbrain.services import House
from commonbrain.storage.job_queue import REFLECT, add_job, announce
from commonbrain.text.normalisation import normalise_line


def ask_to_reflect(act: Act, session: Session) -> Job | None:
    """Ask for a reflection on behalf of an agent whose session told of enough; else give None.

    It is that agent's own: nobody else may look at what it keeps to itself.
    """
    caller = act.caller
    told = Filter(
        kinds=(Kind.EVENT, Kind.MESSAGE), agent=caller.agent, session=session.key, trust_min=0.0
    )
    if not caller.role.covers(Role.WRITER):
        return None
    if len(act.tx.memories.newest(act.look(told), limit=CLUSTER_MIN)) < CLUSTER_MIN:
        return None
    given = {"agent": caller.agent}
    return add_job(act.tx, act.house, caller=caller, kind=REFLECT, given=given, due_at=act.now)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions for one caller.

    Every method answers with a `Told`, and raises `Unavailable` when the store stayed locked; after
    an error everything is as it was.
    """

    house: House
    caller: Caller

    def meet(self, *, last: str | None = None) -> Session:
        """Say which session a call is of and count it as a sign of life; never waits, never fails.

        `last` is the key under which a connection called before; a caller that has a session keeps
        it. What runs for long without a door of its own may call this now and then.
        """
        return meet(self.house, self.caller, last=last)

    def leave(self) -> None:
        """Note that the connection was closed, which the next sign of life would prove wrong."""
        leave(self.house, self.caller)

    def has_booted(self) -> bool:
        """Say whether the caller's session, if it has one, was booted."""
        if self.caller.session is None:
            return False
        with self.house.store.snapshot(self.caller.tenant) as tx:
            known = tx.sessions.get(self.caller.agent, self.caller.session)
        return known is not None and known.booted_at is not None

    def list(self, *, project: str | None = None, agent: str | None = None) -> Told:
        """List who else is at work, in the caller's project unless another is given.

        Who is found to be gone is not listed, and ended when the store can be written to.
        """
        house, now = self.house, self.house.clock.now()
        with house.store.snapshot(self.caller.tenant) as tx:
            act = Act(tx=tx, house=house, caller=self.caller, now=now)
            swept = look_around(tx, house.processes, now=now)
            others = siblings(act, project or self.caller.project, agent=agent)
        if needs_writing(swept):
            self._write_down(swept, now)
        there = [one for one in others if one.id not in swept.gone_ids]
        return Told(
            op="list",
            session=self.caller.session,
            sessions=tuple(peer(one, now) for one in there),
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
            heard = replace(own, heartbeat_at=act.now, ended_at=None, ending=None)
            act.tx.sessions.save(replace(heard, task=task))
        return Told(op="task", session=own.key, task=task)

    def note(self, key: str, value: str, *, pinned: bool = False) -> Told:
        """Keep a short text at hand under a key; an empty one takes it away.

        What is pinned, at most 10 of a project, is shown by every boot of it; the rest is gone 7
        days after the session last noted something.

        Raises:
            Invalid: the key or the text is too long, or the key is empty.
            Refused: `secret_detected`, `limit_exceeded`, or the caller may not write or pin.

        """
        made = checked_note(self.house, self.caller, key=key, value=value, pinned=pinned)
        with self._acting() as act:
            kept = put_note(act, made)
        notes = () if kept is None else (shown_note(kept),)
        return Told(op="note", session=self.caller.session, notes=notes)

    def notes(self) -> Told:
        """List the session's notes, and what others have pinned to the project."""
        with self._looking() as act:
            notes = tuple(shown_note(one) for one in list_notes(act))
        return Told(op="notes", session=self.caller.session, notes=notes)

    def checkpoint(self, action: str) -> Told:
        """Say which rules bind what one is about to do; the same again within 5 minutes is short.

        Raises:
            Invalid: the action is empty or too long.

        """
        asked = checked_action(action)
        vector = vector_of(self.house, asked)
        with self._acting() as act:
            checked = cooled_down(act, asked, checked=binding(act, asked, vector=vector))
        return Told(op="checkpoint", session=self.caller.session, checked=checked)

    def tasks(self, *, project: str | None = None, limit: int = TASKS_SHOWN_MAX) -> Told:
        """List the tasks that are to be done, in the caller's project unless another is given."""
        most = max(1, min(limit, TASKS_SHOWN_MAX))
        with self._looking() as act:
            tasks, total = owed(act, project=project or self.caller.project, limit=most)
        return Told(op="tasks", session=self.caller.session, tasks=tasks, tasks_total=total)

    def claim(
        self,
        id: str,  # noqa: A002 the public name is id
        *,
        minutes: int = LEASE_MINUTES_DEFAULT,
    ) -> Told:
        """Claim an open task for a while, or claim it again for longer.

        Raises:
            Invalid: it is no task, or the minutes are out of bounds.
            NotFound: there is none, or the caller may not see it.
            Refused: `lease_held` by another, or the task is not open.

        """
        with self._acting() as act:
            lease = claim(act, id, minutes=minutes)
        return Told(op="claim", session=self.caller.session, lease=lease)

    def release(self, id: str) -> Told:  # noqa: A002 the public name is id
        """Give a claimed task back; an admin may do so for whoever holds it.

        Raises:
            Invalid: it is no task.
            NotFound: there is none, or the caller may not see it.
            Refused: `lease_held` by another.

        """
        with self._acting() as act:
            lease = release(act, id)
        return Told(op="release", session=self.caller.session, lease=lease)

    def handoff(
        self,
        summary: str,
        *,
        next_steps: Sequence[str] = (),
        blockers: Sequence[str] = (),
        context: str = "",
    ) -> Told:
        """Leave to the next session what it has to know; it takes the place of one left before.

        Args:
            summary: what was done, in a few sentences.
            next_steps: what comes next, each on a line.
            blockers: what stands in the way, each on a line.
            context: what else one has to know; all parts take at most 2,000 characters.

        Returns:
            What became of it at the gate, in `outcome`: an episode that every recall can find.

        Raises:
            Invalid: there is no summary, or the caller has no session.
            Refused: `limit_exceeded`, it says too much; or the caller may not write.

        """
        parts = Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        self._check_has_session("handoff")
        handing = hand_over(self.house, self.caller, handoff=parts)
        with self._acting() as act:
            outcome = handing.store(act)
        return Told(op="handoff", session=self.caller.session, outcome=outcome)

    def sum_up(self, summary: str) -> Told:
        """Leave a handoff that nobody wrote; one that the agent wrote itself stays in its place.

        Raises:
            Invalid: there is no summary, or the caller has no session.
            Refused: as `handoff`.

        """
        self._check_has_session("handoff")
        left = Handoff(summary=summary, is_automatic=True)
        handing = hand_over(self.house, self.caller, handoff=left)
        with self._acting() as act:
            outcome = handing.store(act)
        return Told(op="handoff", session=self.caller.session, outcome=outcome)

    def end(
        self,
        summary: str = "",
        *,
        next_steps: Sequence[str] = (),
        blockers: Sequence[str] = (),
        context: str = "",
    ) -> Told:
        """End the session, with a handoff where one is given; who calls on begins a new one.

        A handoff that does not get in leaves the session open, so that it can be given again.

        Raises:
            Invalid: the caller has no session, or a handoff has no summary.
            Refused: as `handoff`.

        """
        parts = Handoff(summary=summary, next_steps=next_steps, blockers=blockers, context=context)
        self._check_has_session("end")
        hands_over = parts != Handoff(summary="")
        handing = hand_over(self.house, self.caller, handoff=parts) if hands_over else None
        job = None
        with self._acting() as act:
            outcome = handing.store(act) if handing else None
            own = own_session(act)
            if outcome is None or not outcome.status.is_refused:
                over = replace(own, ended_at=act.now, ending=Ending.ENDED)
                act.tx.sessions.save(over)
                job = ask_to_reflect(act, own)
        if job is not None:
            announce(self.house, job)
        return Told(op="end", session=own.key, outcome=outcome)

    @contextmanager
    def _looking(self) -> Generator[Act]:
        with self.house.store.snapshot(self.caller.tenant) as tx:
            yield Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())

    @contextmanager
    def _acting(self) -> Generator[Act]:
        with self.house.store.begin(self.caller.tenant) as tx:
            yield Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())

    def _write_down(self, swept: Swept, now: datetime) -> None:
        # Who looks need not be able to write: whoever looks next finds the same.
        with suppress(Unavailable), self.house.store.begin(self.caller.tenant) as tx:
            write_down(tx, swept, now=now)

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
