"""The registry of sessions: who is there, who begins, and who is found to be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from commonbrain.domain import ids
from commonbrain.domain.limits import SESSIONS_SHOWN_MAX
from commonbrain.domain.liveness import known_of, rebooted_by
from commonbrain.domain.session import Contact, Ending, Session
from commonbrain.flows.act import Act


def open_session(act: Act, *, contact: Contact, task: str | None) -> Session:
    """Begin the caller's session in earnest, or make a new one where the caller has none.

    A client that gives its sessions names has one at a time: one that begins ends the live ones of
    the same agent, process and folder.
    """
    known = own_session(act)
    # What ended begins anew under its key: a client may take up an old conversation.
    told: dict[str, Any] = {
        "project": act.caller.project or known.project,
        "task": task or known.task,
        "booted_at": act.now,
        "heartbeat_at": act.now,
        "ended_at": None,
        "ending": None,
        **known_of(known, contact),
    }
    session = replace(known, **told)
    act.tx.sessions.save(session)
    if session.process is not None:
        around = act.tx.sessions.of_process(session.agent, session.process, cwd=session.cwd)
        gone = [one.id for one in rebooted_by(session, around)]
        act.tx.sessions.end(gone, ending=Ending.REBOOTED, at=act.now)
    return session


def own_session(act: Act) -> Session:
    """Give the caller's session as it is stored, or as it would begin now."""
    key = act.caller.session
    known = act.tx.sessions.get(act.caller.agent, key) if key else None
    if known is not None:
        return known
    id_ = ids.make_id(act.now, act.house.chance.bits(ids.RANDOM_BITS))
    return Session(
        id=id_,
        key=key or ids.show(ids.SESSION, id_),
        agent=act.caller.agent,
        project=act.caller.project,
        started_at=act.now,
        heartbeat_at=act.now,
    )


def siblings(act: Act, project: str | None) -> list[Session]:
    """List the live sessions of a project, or of all, but for the caller's own."""
    own = (act.caller.agent, act.caller.session)
    live = act.tx.sessions.live(project=project, limit=SESSIONS_SHOWN_MAX + 1)
    others = [one for one in live if (one.agent, one.key) != own]
    return others[:SESSIONS_SHOWN_MAX]
