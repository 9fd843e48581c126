"""What every store promises of mail; subclass it for a new engine, as `StoreContract`."""

from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.model import ids
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import ERASED, Memory, State, ThreadRef
from commonbrain.model.messages import TOP, Mailbox, Reader, Receipt, ThreadStatus, deliveries
from commonbrain.model.query import Filter
from commonbrain.model.scope import EVERYBODY, LOCAL_TENANT, Caller, Scope
from commonbrain.storage.interface import Beginning, QueryScope
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import OpenStore

_SAID = {"a": {1: (), 2: (), 3: (), 4: ("bo",), 5: (), 6: ()}, "bb": {11: (), 12: ()}}
BASE = ids.make_id(NOON, 0)
BO = Reader(agent="bo", project=None, now=NOON)


def a_message(number: int, *to: str, **more: object) -> Memory:
    """Make a message of ann's, private to its recipients, a broadcast without any."""
    scope = Scope.PRIVATE if to else Scope.TEAM
    detail = MessageDetail(sender="ann", recipients=to)
    fields: dict[str, object] = {"scope": scope, "detail": detail, **more}
    return a_memory(BASE + number, f"Note {number}", kind=Kind.MESSAGE, **fields)


def post(tx: Transaction, message: Memory) -> None:
    """Store and deliver a message."""
    tx.memories.add(message)
    tx.messages.post(deliveries(message, to=message.audience or (EVERYBODY,)))


def unread(tx: Transaction, reader: Reader = BO) -> list[int]:
    """Give the numbers of what waits."""
    places = tx.messages.unread(reader, below=TOP, limit=100)
    return [place.message_id - BASE for place in places]


class MailContract:
    """The promises of receipts and threads; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    def test_sent_message_is_unread_until_it_is_marked(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for number in (1, 2, 3):
                post(tx, a_message(number, *(["bo"] if number < 3 else [])))
            assert unread(tx) == [3, 2, 1]
            tx.messages.mark(BO, [BASE + 3, BASE + 1])
            assert unread(tx) == [2]
            assert tx.messages.read(BO, below=ids.LAST, limit=9) == [BASE + 3, BASE + 1]
            assert tx.messages.count_unread(BO, limit=9) == 1
            assert tx.messages.unread_among(BO, [BASE + 1, BASE + 2]) == {BASE + 2}

    def test_agent_cannot_mark_messages_to_others(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            post(tx, a_message(1, "cy"))
            tx.messages.mark(BO, [BASE + 1])
            assert [one.agent for one in tx.messages.of([BASE + 1])[BASE + 1]] == ["cy"]
            assert not tx.messages.acknowledge(BO, BASE + 1, answer="?")

    def test_taking_over_broadcasts_does_not_change_unread_messages(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for number in range(5):
                post(tx, a_message(number))
            tx.messages.mark(BO, [BASE + 3])
            before = unread(tx)
            tx.messages.take(BO)
            assert unread(tx) == before == [4, 2, 1, 0]
            tx.messages.take(BO)
            post(tx, a_message(9))
            assert unread(tx) == [9, 4, 2, 1, 0]
            assert unread(tx, Reader(agent="ann", project=None, now=NOON)) == []

    def test_page_of_unread_messages_begins_after_the_previous_page(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for number in range(6):
                post(tx, a_message(number, *(["bo"] if number % 2 else [])))
            position = Mailbox(is_urgent=False, message_id=BASE + 4)
            places = tx.messages.unread(BO, below=position, limit=2)
            assert [one.message_id - BASE for one in places] == [3, 2]

    def test_outdated_messages_are_not_unread(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            post(tx, a_message(1, "bo", state=State.FORGOTTEN))
            post(tx, a_message(2, "bo", expires_at=NOON - timedelta(seconds=1)))
            assert unread(tx) == []
            assert tx.messages.count_unread(BO, limit=9) == 0

    def test_memories_derived_from_a_message_are_returned_in_any_state(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for number in (1, 2):
                post(tx, a_message(number))
            for number, state in ((3, State.ACTIVE), (4, State.FORGOTTEN)):
                made = a_memory(BASE + number, "Part", state=state, source_message_id=BASE + 1)
                tx.memories.add(made)
            assert tx.messages.derived([BASE + 1, BASE + 2]) == [BASE + 3, BASE + 4]
            assert tx.messages.derived([BASE + 2]) == tx.messages.derived([]) == []

    def test_receipts_of_two_stores_are_merged(self, store: Store) -> None:
        read_at = NOON + timedelta(hours=1)
        receipt = Receipt(message_id=BASE + 1, agent="bo", sender="ann", read_at=read_at)
        with store.begin(LOCAL_TENANT) as tx:
            post(tx, a_message(1, "bo"))
            assert tx.messages.merge(receipt)
            assert not tx.messages.merge(receipt)
            assert tx.messages.of([BASE + 1])[BASE + 1] == (receipt,)

    def test_thread_is_visible_to_readers_of_any_of_its_messages(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            ref = ThreadRef(key="k", subject="Between us")
            thread = tx.threads.open(ref, None, new_id=7, now=NOON)
            assert tx.threads.is_begun(thread) is False
            assert tx.threads.is_begun(8) is None
            detail = MessageDetail(thread_id=thread, sender="ann", recipients=("bo",))
            post(tx, a_message(1, "bo", detail=detail))
            assert tx.threads.is_begun(thread) is True
            assert tx.threads.last() == BASE + 1
            for agent, seen in (("ann", 1), ("bo", 1), ("cy", 0)):
                caller = Caller(agent=agent)
                messages = tx.threads.messages(thread, caller, now=NOON, below=ids.LAST, limit=9)
                recent = tx.threads.recent(caller, now=NOON, below=ids.LAST, limit=9)
                assert (len(messages), len(recent)) == (seen, seen)
            assert tx.threads.participants([BASE + 1]) == {"ann", "bo"}

    @pytest.mark.requirement("DM-74")
    def test_subject_of_a_thread_is_visible_to_readers_of_its_first_message(
        self, store: Store
    ) -> None:
        agents = ("ann", "bo", "cy", "dan")
        of_thread = MessageDetail(thread_id=7, sender="ann")

        def known(tx: Transaction) -> dict[str, tuple[int, bool, bool, bool]]:
            return {
                agent: (
                    begun.message_id - BASE,
                    begun.was_addressed,
                    begun.is_first,
                    bool(subjects),
                )
                for agent in agents
                for caller in [Caller(agent=agent)]
                for subjects in [tx.threads.subjects([7, 8], caller, now=NOON)]
                if (begun := tx.threads.beginning(7, caller, now=NOON)) is not None
            }

        with store.begin(LOCAL_TENANT) as tx:
            tx.threads.open(ThreadRef(key="k", subject="Tea"), None, new_id=7, now=NOON)
            assert known(tx) == {}
            private = replace(of_thread, recipients=("bo",))
            post(tx, a_message(1, "bo", detail=private))
            post(tx, a_message(2, "bo", detail=private))
            post(tx, a_message(3, "cy", detail=replace(of_thread, recipients=("cy",))))
            third = (3, False, False, False)
            first = (1, True, True, True)
            assert known(tx) == {"ann": first, "bo": first, "cy": third}
            subject = tx.threads.subjects([7], Caller(agent="bo"), now=NOON)[7]
            assert (subject.text, subject.message_id) == ("Tea", BASE + 1)
            tx.memories.set_state([BASE + 1], State.FORGOTTEN)
            second = (2, True, False, False)
            assert known(tx) == {"ann": second, "bo": second, "cy": third}
            tx.memories.set_state([BASE + 2], State.FORGOTTEN)
            assert known(tx) == {"ann": (3, True, False, False), "cy": third}
            assert tx.threads.beginning(8, Caller(agent="ann"), now=NOON) is None
            assert tx.threads.subjects([], Caller(agent="ann"), now=NOON) == {}
        with store.begin("other") as tx:
            assert tx.threads.subjects([7], Caller(agent="ann"), now=NOON) == {}

    @pytest.mark.requirement("DM-74", "LC-14")
    def test_erased_first_message_leaves_no_subject_and_no_tags(self, store: Store) -> None:
        detail = MessageDetail(thread_id=7, sender="ann", recipients=("bo",))
        with store.begin(LOCAL_TENANT) as tx:
            tx.threads.open(ThreadRef(key="k", subject="Tea"), None, new_id=7, now=NOON)
            tx.threads.open(ThreadRef(key="l", subject="Milk"), None, new_id=8, now=NOON)
            for thread in (7, 8):
                tx.threads.set_status(thread, ThreadStatus.CLOSED, tags=("tea",))
            post(tx, a_message(1, "bo", detail=detail))
            post(tx, a_message(2, "bo", detail=detail))
            assert tx.scrub(BASE + 2)["threads"] == 0
            assert tx.scrub(BASE + 1)["threads"] == 1
            post(tx, a_message(3, "bo", detail=detail))
        with store.snapshot(LOCAL_TENANT) as tx:
            threads = tx.threads.get([7, 8])
            begun = tx.threads.beginning(7, Caller(agent="bo"), now=NOON)
        assert [(one.subject, one.tags) for one in threads.values()] == [
            (ERASED, ()), ("Milk", ("tea",))
        ]  # fmt: skip
        assert begun == Beginning(message_id=BASE + 3, is_first=False, was_addressed=False)

    def test_status_and_tags_of_a_thread_can_change_and_its_author_cannot(
        self, store: Store
    ) -> None:
        ref = ThreadRef(key="k", subject="Between us")
        with store.begin(LOCAL_TENANT) as tx:
            tx.threads.open(ref, None, new_id=7, now=NOON, agent="ann")
            assert tx.threads.get([7, 8])[7].status is ThreadStatus.OPEN
            tx.threads.set_status(7, ThreadStatus.CLOSED, tags=("tea", "milk"))
            tx.threads.set_status(7, ThreadStatus.CLOSED)
        with store.snapshot(LOCAL_TENANT) as tx:
            [thread] = tx.threads.page(after=0, limit=9)
            assert tx.threads.get([]) == {}
        with store.begin("other") as tx:
            tx.threads.set_status(7, ThreadStatus.OPEN)
            assert tx.threads.get([7]) == {}

        values = (thread.agent, thread.status, thread.tags)
        assert values == ("ann", ThreadStatus.CLOSED, ("tea", "milk"))

    def test_passage_contains_the_messages_around_a_message(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            threads = [
                self._thread(tx, key, recipients=recipients) for key, recipients in _SAID.items()
            ]
            first, second = threads
            tx.memories.add(a_memory(BASE + 30, "No message"))
            scope = QueryScope(caller=Caller(agent="cy"), filter=Filter(), now=NOON)
            message_ids = [BASE + number for number in (1, 3, 6, 11, 30, 99)]
            around = tx.threads.around(message_ids, scope, before=2, after=1)
            assert {id_ - BASE: [i - BASE for i in one.ids] for id_, one in around.items()} == {
                1: [1, 2],
                3: [1, 2, 3, 5],  # What is private to others is passed over.
                6: [3, 5, 6],
                11: [11, 12],
            }
            assert {one.source for one in around.values()} == {first, second}
            assert tx.threads.around([], scope, before=2, after=1) == {}
            bo = replace(scope, caller=Caller(agent="bo"))
            [neighbours] = tx.threads.around([BASE + 3], bo, before=1, after=2).values()
            assert neighbours.ids == (BASE + 2, BASE + 3, BASE + 4, BASE + 5)
        with store.snapshot("other") as tx:
            assert tx.threads.around(message_ids, scope, before=2, after=1) == {}

    def _thread(self, tx: Transaction, key: str, *, recipients: dict[int, tuple[str, ...]]) -> int:
        thread = tx.threads.open(ThreadRef(key=key, subject=key), None, new_id=len(key), now=NOON)
        for number, to in recipients.items():
            detail = MessageDetail(thread_id=thread, sender="ann", recipients=to)
            post(tx, a_message(number, *to, detail=detail))
        return thread

    def test_messages_are_not_visible_to_another_tenant(
        self, store: Store, open_store: OpenStore
    ) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            post(tx, a_message(1, "bo"))
            post(tx, a_message(2))
        with open_store().snapshot("other") as tx:
            assert unread(tx) == []
            assert tx.messages.between(BO, "ann", below=ids.LAST, limit=9) == []
            assert tx.threads.last() == 0
