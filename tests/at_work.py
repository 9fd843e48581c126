"""Small steps for sessions: who boots, who is heard, who is seen to be at work."""

from dataclasses import replace

from commonbrain.client import Brain
from commonbrain.coordination.session_registry import open_session
from commonbrain.coordination.session_views import ActiveSession
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.sessions import ClientInfo, Ending, Process, Session
from commonbrain.testing.builders import FakeProcesses

FOLDER = "/home/ann/api"


def processes_of(brain: Brain) -> FakeProcesses:
    """The process table that the brain looks at."""
    processes = brain.services.processes
    assert isinstance(processes, FakeProcesses)
    return processes


def at_work(
    brain: Brain,
    key: str | None = None,
    *,
    process: Process | None = None,
    server: Process | None = None,
    cwd: str = FOLDER,
) -> Brain:
    """The brain as a client sees it that may have named its session, a process and a server."""
    contact = ClientInfo(client="codex 1", cwd=cwd, process=process, server=server)
    return brain.acting_as(session=key, contact=contact)


def boots(brain: Brain, *, task: str | None = None, project: str | None = None) -> Session:
    """Begin a session as `boot` does."""
    caller = replace(brain.caller, project=project or brain.caller.project)
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        act = UnitOfWork(
            tx=tx, services=brain.services, caller=caller, now=brain.services.clock.now()
        )
        return open_session(act, contact=caller.contact, task=task)


def heard(brain: Brain, *, last: str | None = None) -> str:
    """Call once, and let what calls leave be written; give the session's key."""
    session = brain.session.meet(last=last)
    brain.services.journal.flush()
    return session.key


def stored_session(brain: Brain, key: str, *, agent: str = "ann") -> Session:
    """Give what is stored of a session."""
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        session = tx.sessions.get(agent, key)
    assert session is not None
    return session


def ending_of(brain: Brain, key: str, *, agent: str = "ann") -> Ending | None:
    """Say how a session ended."""
    return stored_session(brain, key, agent=agent).ending


def shown(brain: Brain) -> list[ActiveSession]:
    """What a caller is shown of others."""
    return list(brain.session.list().sessions or ())


def seen(brain: Brain) -> list[str]:
    """Name the sessions that a caller is shown."""
    return [one.session for one in shown(brain)]
