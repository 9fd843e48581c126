"""Agents that write to each other from several processes, and what each reader must get."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from commonbrain import CommonbrainError
from commonbrain.client import Brain
from commonbrain.clock import SystemClock, SystemRandom
from commonbrain.coordination.inbox import MessageView
from commonbrain.testing.builders import a_brain
from tests.faults.workers import DONE, READY, Line, Worker

AGENTS: Final = tuple(f"agent-{number:02}" for number in range(20))
THREADS: Final = 10
_WRITERS: Final = 8
_READS_EVERY: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One step of a process: a message that it sent, or messages that an agent read first."""

    sent: str = ""
    by: str = ""
    to: tuple[str, ...] = ()
    got: tuple[str, ...] = ()
    ms: float = 0.0
    error: str = ""

    def to_json(self) -> str:
        """Format it for the line."""
        return json.dumps(asdict(self))


_REPORT: Final = TypeAdapter(Report)


class Lagging(SystemClock):
    """A clock that is behind by some minutes, as clocks of machines that share a file are."""

    def __init__(self, minutes: int) -> None:
        self._lag = timedelta(minutes=minutes)

    def now(self) -> datetime:
        """Give a moment of the past."""
        return super().now() - self._lag


def begin_threads(path: Path) -> None:
    """Start the threads that all agents write in."""
    with a_brain(
        path, agent="maker", clock=Lagging(_WRITERS), random_source=SystemRandom()
    ) as brain:
        for number in range(THREADS):
            brain.message.send("all", f"Thread {number} begins.", subject=f"Thread {number}")


def send_many(path: Path, number: int, times: int, line: Line) -> None:
    """Send messages and read inboxes, reporting the result of each."""
    line.send(READY)
    line.recv()
    random_source = random.Random(number)  # noqa: S311 made up, and the same in every run
    clock = Lagging(number)
    try:
        with a_brain(
            path, agent=AGENTS[number], clock=clock, random_source=SystemRandom()
        ) as brain:
            threads = sorted(one.id for one in brain.message.threads(limit=100).threads)[:THREADS]
            for turn in range(times):
                for report in _turn(
                    brain, number, turn, threads=threads, random_source=random_source
                ):
                    line.send(report.to_json())
    except CommonbrainError as error:
        line.send(Report(error=f"{error.code}: {error}").to_json())
    line.send(DONE)


def _turn(
    brain: Brain, number: int, turn: int, *, threads: Sequence[str], random_source: random.Random
) -> Iterator[Report]:
    # No agent reads in two processes at once, as none is at work twice.
    own = AGENTS[number::_WRITERS]
    sender = brain.acting_as(agent=own[turn % len(own)])
    to = (
        "all" if turn % 20 == 0 else random_source.choice([one for one in AGENTS if one not in own])
    )
    started = time.perf_counter()
    sent = sender.message.send(to, f"Writer {number} turn {turn}.", thread=threads[turn % THREADS])
    took_ms = (time.perf_counter() - started) * 1000
    yield Report(sent=sent.id, by=sender.caller.agent, to=sent.to, ms=took_ms)
    if turn % _READS_EVERY == 0:
        yield read_once(sender)


def heard_of(one: Worker) -> list[Report]:
    """Return all reports of a process."""
    return [_REPORT.validate_json(line) for line in one.hear_out() if line != DONE]


def read_once(reader: Brain) -> Report:
    """Read a page of the inbox, reporting what was unread."""
    waiting = [one.id for one in reader.message.inbox().messages]
    got = reader.message.read(waiting).messages if waiting else ()
    return Report(by=reader.caller.agent, got=tuple(one.id for one in got if one.is_unread))


def drain(brain: Brain) -> list[Report]:
    """Read everything that is unread, at every agent."""
    reports: list[Report] = []
    for agent in AGENTS:
        reader = brain.acting_as(agent=agent)
        while (once := read_once(reader)).got:
            reports.append(once)
    return reports


def wrongs(brain: Brain, reports: Iterable[Report]) -> list[str]:
    """List messages that were lost, delivered twice or to others, or are out of order."""
    every = list(reports)
    begun = [
        Report(sent=one.id, by=one.sender, to=one.to)
        for thread in brain.message.threads(limit=100).threads
        for one in _history(brain, thread.id)
        if one.sender == "maker"
    ]
    sent = [one for one in every if one.sent] + begun
    got = Counter((one.by, id_) for one in every for id_ in one.got)
    due = {
        (agent, one.sent)
        for one in sent
        for agent in (AGENTS if one.to == ("*",) else one.to)
        if agent != one.by
    }
    return [
        *(one.error for one in every if one.error),
        *(f"lost: {id_} to {agent}" for agent, id_ in sorted(due - set(got))),
        *(f"not meant: {id_} to {agent}" for agent, id_ in sorted(set(got) - due)),
        *(f"{count} times: {id_} to {agent}" for (agent, id_), count in got.items() if count > 1),
        *_disorder(brain),
    ]


def _disorder(brain: Brain) -> Iterator[str]:
    """Check each thread as each agent sees it: every writer's turns must ascend."""
    for agent in AGENTS:
        reader = brain.acting_as(agent=agent)
        for thread in reader.message.threads(limit=100).threads:
            last: dict[str, int] = {}
            for one in _history(reader, thread.id):
                words = one.headline.rstrip(".").split()
                if words[0] != "Writer":
                    continue
                if last.get(words[1], -1) >= int(words[3]):
                    yield f"out of order: {one.id} in {thread.id}"
                last[words[1]] = int(words[3])


def _history(brain: Brain, thread: str) -> list[MessageView]:
    page = brain.message.history(thread=thread, limit=100)
    messages = list(page.messages)
    while page.next is not None:
        page = brain.message.history(thread=thread, limit=100, cursor=page.next)
        messages = [*page.messages, *messages]
    return messages
