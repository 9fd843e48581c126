"""Messages: the store's part of sending and polling in a large mailbox, and a crowd that writes."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import typer

from benchmarks.shared_file import let_go
from benchmarks.timing import Timing, timed, timing
from benchmarks.workers import opened
from commonbrain.client import Brain
from commonbrain.coordination.inbox import UnreadSummary, unread_of
from commonbrain.coordination.sending import (
    MessageOptions,
    deliver_message,
    draft_of,
    embed_messages,
    parse_recipients,
    prepare_message,
)
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model import ids
from commonbrain.model.messages import Reader
from commonbrain.storage.store import Transaction
from tests.faults.mailing import AGENTS, begin_threads, drain, heard_of, send_many, wrongs
from tests.faults.workers import worker

app = typer.Typer()
_RUNS = 300
_BATCH = 200
_THREADS = 2000
_BROADCASTS = 0.2


@app.command()
def mailing(messages: int = typer.Argument(default=100_000), *, seed: int = 5) -> None:
    """Measure sending and polling in a store of so many messages, without embedding.

    Twenty agents; one in five messages is a broadcast, half of the others are read. `process` is
    the time that the store works; the rest of a send waits until the disk has it.
    """
    random_source = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "b.db", AGENTS[0]) as brain:
        filled = timed(lambda: _fill(brain, messages, random_source))
        print(f"{messages:,} messages, {filled.wall_ms / messages:.2f} ms each")
        crew = [brain.acting_as(agent=agent) for agent in AGENTS]
        print(_polls(crew, _boot).line("poll, 1,000+ unread"))
        print(_polls(crew, lambda one: one.message.inbox()).line("inbox, 1,000+ unread"))
        caught_up = crew[0]
        while waiting := caught_up.message.inbox(limit=20).messages:
            caught_up.message.read([one.id for one in waiting])
        print(_polls([caught_up], _boot).line("poll, nothing unread"))
        for number in range(20):
            crew[1].message.send(caught_up.caller.agent, f"Call {number}.")
        print(_polls([caught_up], _boot).line("poll, 20 unread"))
        print(_polls([caught_up], lambda one: one.message.inbox()).line("inbox, 20 unread"))
        print(_sends(crew[2:], to=crew[0].caller.agent).line("send to one, made durable"))
        print(_sends(crew[2:], to="all").line("send to all, made durable"))
        print(_polls(crew[:2], lambda one: one.message.threads()).line("threads"))


@app.command()
def messages(writers: int = 8, messages: int = 10_000) -> None:
    """Let twenty agents write and read, and check that no message is lost or arrives twice.

    Each process has a clock a minute behind the one before.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "b.db"
        begin_threads(path)
        working = [
            stack.enter_context(worker(send_many, path, number=number, times=messages // writers))
            for number in range(writers)
        ]
        let_go(working)
        started = time.perf_counter()
        reports = [report for one in working for report in heard_of(one)]
        seconds = time.perf_counter() - started
        times_ms = [report.ms for report in reports if report.sent]
        p95 = quantiles(times_ms, n=20)[-1]
        print(f"{len(times_ms):,} sent by {writers} processes in {seconds:.0f} s")
        print(f"a send: p50 {median(times_ms):.1f} ms, p95 {p95:.1f} ms, waiting for others too")
        with opened(path, "maker") as brain:
            reports += drain(brain)
            print(f"read {sum(len(report.got) for report in reports):,} times")
            errors = wrongs(brain, reports)
            print("\n".join(errors[:20]) or "none lost, none delivered twice, all in order")


def _fill(brain: Brain, count: int, random_source: random.Random) -> None:
    """Send so many messages, half of the direct ones read."""
    threads: list[int] = []
    for first in range(0, count, _BATCH):
        with brain.services.store.begin(brain.caller.tenant) as tx:
            for number in range(first, min(first + _BATCH, count)):
                sender = brain.acting_as(agent=random_source.choice(AGENTS))
                to = _recipient(sender, random_source)
                ready = _ready(sender, number, to=to)
                is_new = len(threads) < _THREADS
                thread = None if is_new or to != "all" else random_source.choice(threads)
                sent = deliver_message(_act(tx, sender), ready, thread=thread)
                if is_new and to == "all":
                    threads.append(ids.parse(ids.THREAD, sent.thread))
                if to != "all" and number % 2:
                    reader = Reader(agent=to, project=None, now=brain.services.clock.now())
                    tx.messages.mark(reader, [ids.parse(ids.MEMORY, sent.id)])


def _recipient(sender: Brain, random_source: random.Random) -> str:
    others = [name for name in AGENTS if name != sender.caller.agent]
    return "all" if random_source.random() < _BROADCASTS else random_source.choice(others)


def _ready(sender: Brain, number: int, *, to: str, embeds: bool = False) -> PreparedDraft:
    names = parse_recipients(to, sender.caller, services=sender.services)
    body = f"Note {number} about thing{number % 97}: it is done, and so is its neighbour."
    draft = draft_of(
        body, to=names, options=MessageOptions(), caller=sender.caller, services=sender.services
    )
    ready = prepare_message(draft, sender.caller, services=sender.services)
    return embed_messages([ready], sender.caller, services=sender.services)[0] if embeds else ready


def _act(tx: Transaction, sender: Brain) -> UnitOfWork:
    return UnitOfWork(
        tx=tx, services=sender.services, caller=sender.caller, now=sender.services.clock.now()
    )


def _sends(crew: Sequence[Brain], *, to: str) -> Timing:
    """Store messages, each in a transaction of its own, right after it is prepared and embedded."""
    ready = (
        (sender, _ready(sender, number, to=to, embeds=True)) for number, sender in _turns(crew)
    )
    return timing(partial(_send, sender, one) for sender, one in ready)


def _send(sender: Brain, ready: PreparedDraft) -> None:
    with sender.services.store.begin(sender.caller.tenant) as tx:
        deliver_message(_act(tx, sender), ready, thread=None)


def _polls(crew: Sequence[Brain], poll: Callable[[Brain], object]) -> Timing:
    return timing(partial(poll, reader) for _, reader in _turns(crew))


def _boot(reader: Brain) -> UnreadSummary:
    caller, now = reader.caller, reader.services.clock.now()
    with reader.services.store.snapshot(caller.tenant) as tx:
        return unread_of(tx, caller, project=None, now=now)


def _turns(crew: Sequence[Brain]) -> Iterator[tuple[int, Brain]]:
    return ((number, crew[number % len(crew)]) for number in range(_RUNS))
