import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from commonbrain.model import ids
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.scope import EVERYBODY, LOCAL_TENANT
from commonbrain.testing.builders import a_brain
from tests.faults.mailing import begin_threads, drain, heard_of, send_many, wrongs
from tests.faults.workers import READY, Worker, worker

TURNS = 8


def go(workers: list[Worker]) -> None:
    for one in workers:
        assert one.hear() == READY
    for one in workers:
        one.line.send("go")


@pytest.mark.requirement("MS-01")
def test_messages_of_many_processes_are_delivered_once_and_in_order(path: Path) -> None:
    begin_threads(path)
    with ExitStack() as stack:
        writers = [
            stack.enter_context(worker(send_many, path, number=number, times=TURNS))
            for number in range(4)
        ]
        go(writers)
        reports = [report for one in writers for report in heard_of(one)]

    with a_brain(path, agent="maker") as brain:
        assert len([one for one in reports if one.sent]) == 4 * TURNS
        assert wrongs(brain, [*reports, *drain(brain)]) == []


def test_killed_sender_leaves_each_message_whole_or_not_at_all(path: Path) -> None:
    begin_threads(path)
    with ExitStack() as stack:
        victim, other = (
            stack.enter_context(worker(send_many, path, number=number, times=10**6))
            for number in range(2)
        )
        go([victim, other])
        heard = [victim.hear() for _ in range(16)]
        victim.process.kill()
        for _ in range(8):
            assert other.hear()
        other.process.kill()
    sent = {given["sent"] for given in map(json.loads, filter(None, heard)) if given["sent"]}

    with a_brain(path, agent="maker") as brain, brain.services.store.snapshot(LOCAL_TENANT) as tx:
        there = tx.memories.get(tx.memories.page(after=-1, limit=10_000))
        receipts = tx.messages.of(list(there))
        assert sent <= {ids.show(ids.MEMORY, id_) for id_ in there}
        for id_, one in there.items():
            assert isinstance(one.detail, MessageDetail)
            assert one.detail.thread_id is not None
            reached = {receipt.agent for receipt in receipts[id_]}
            assert reached >= set(one.detail.recipients or (EVERYBODY,))
        assert all(one.is_sound for one in brain.doctor().findings)
