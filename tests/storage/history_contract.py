"""What every store promises of change: links, before-images, annotations, and scrubbing.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.model.kinds import KINDS, Kind, MessageDetail, RuleDetail, Severity
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.revision import Action, BeliefPeriod
from commonbrain.model.scope import LOCAL_TENANT, Trust
from commonbrain.storage.interface import Annotation, MemoryAccess, StoredReply
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import (
    LATER,
    OpenStore,
    a_change,
    a_link,
    lexical,
    move,
    nearest,
    put,
    query_scope,
    stored,
)

LAP = timedelta(minutes=1)


class HistoryContract:
    """The promises of links, changes and annotations; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it, with three memories in it."""
        opened = open_store()
        put(opened, a_memory(1, "tea is ready"), a_memory(2, "tea is gone"), a_memory(3, "bread"))
        return opened

    @pytest.mark.parametrize("kind", Kind)
    def test_update_of_a_memory_writes_the_changed_fields_only(
        self, open_store: OpenStore, kind: Kind
    ) -> None:
        store = open_store()
        memory = a_memory(1, "as it was", kind=kind, tags=("old",), people=("sam",))
        put(store, memory)
        after = replace(
            memory, state=State.ARCHIVED, pinned=True, rating=-2, tags=("new", "old"), people=(),
            topics=("Kettle",), references=("a.py",), believed_since=LATER, confidence=0.1,
        )  # fmt: skip

        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.update(memory, after)

        assert stored(store, 1) == {1: after}

    def test_access_is_counted_and_its_time_never_moves_back(self, store: Store) -> None:
        for ids, at in (((1, 2, 99, 1), LATER), ((1,), NOON)):
            access = MemoryAccess(tenant=LOCAL_TENANT, ids=ids, at=at)
            store.note_reads(LOCAL_TENANT, traces=[], accesses=[access], retain_from=NOON)

        both = stored(store, 1, 2)
        assert [(m.access_count, m.last_access_at) for m in both.values()] == [
            (3, LATER),
            (1, LATER),
        ]

    @pytest.mark.requirement("DM-51", "DM-68")
    def test_linking_again_averages_the_strength(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.put(a_link(1, 2, strength=0.2))
            again = tx.links.put(a_link(1, 2, strength=0.8, trust=Trust.TRUSTED_TOOL))

        assert (again.strength, again.observations) == (0.5, 2)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.links.touching([2]) == [again]

    def test_links_of_several_types_can_join_the_same_memories(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.put(a_link(1, 2, strength=0.9))
            tx.links.put(a_link(1, 2, type=LinkType.CAUSES, strength=0.4))
            tx.links.put(a_link(3, 1, type=LinkType.ABOUT, strength=0.1))

            assert [link.strength for link in tx.links.touching([1])] == [0.9, 0.4, 0.1]
            assert [link.from_id for link in tx.links.touching([1], types=[LinkType.ABOUT])] == [3]
            assert tx.links.touching([]) == []

    @pytest.mark.requirement("DM-44")
    @pytest.mark.parametrize("second", sorted(set(LinkType) - {LinkType.CAUSES}))
    def test_second_link_type_leaves_the_first_link_unchanged(
        self, store: Store, second: LinkType
    ) -> None:
        first = a_link(1, 2, type=LinkType.CAUSES, strength=0.9, observations=4, basis="logs")
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.replace(first)
            for strength in (0.2, 0.4):
                tx.links.put(a_link(1, 2, type=second, strength=strength))
            both = {link.type: link for link in tx.links.touching([1])}
            assert both[LinkType.CAUSES] == first
            assert both[second].observations == 2
            assert both[second].strength == pytest.approx(0.3)

            tx.links.drop(1, 2, type_=second)
            assert tx.links.touching([1]) == [first]

    def test_link_is_dropped_and_restored_unchanged(self, store: Store) -> None:
        link = a_link(1, 2, strength=0.9, observations=3, basis="seen")
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.replace(link)
            dropped = tx.links.drop(1, 2, type_=LinkType.RELATES_TO)
            assert tx.links.touching([1]) == []
            assert tx.links.drop(1, 2, type_=LinkType.RELATES_TO) is None
            tx.links.replace(link)
            tx.links.replace(replace(link, strength=0.1))

            assert dropped == link
            assert tx.links.touching([1]) == [replace(link, strength=0.1)]

    @pytest.mark.requirement("DM-11")
    def test_before_images_are_read_as_values_of_a_memory(self, open_store: OpenStore) -> None:
        store = open_store()
        skill = {"name": "tea", "keywords": ["kettle"]}
        rule = RuleDetail(severity=Severity.BLOCKER, skill=skill)
        put(store, a_memory(1, "warm the pot", kind=Kind.RULE))
        change = a_change(
            1,
            action=Action.PIN,
            before={"state": State.ACTIVE, "pinned": False, "tags": ("a",), "detail": RuleDetail()},
            after={"superseded_at": NOON, "payload": {"x": [1]}, "detail": rule},
            believed=BeliefPeriod(since=NOON, until=LATER),
        )
        with store.begin(LOCAL_TENANT) as tx:
            tx.changes.add(change)

        with store.snapshot(LOCAL_TENANT) as tx:
            [read] = tx.changes.of([1])
            assert replace(read, id=0) == change
            assert tx.changes.believed([1, 2]) == {1: [BeliefPeriod(since=NOON, until=LATER)]}

    def test_changes_stay_in_order_at_equal_times_and_when_the_clock_is_set_back(
        self, store: Store
    ) -> None:
        times = (NOON, NOON, NOON, LATER, NOON)
        with store.begin(LOCAL_TENANT) as tx:
            for number, at in enumerate(times):
                tx.changes.add(a_change(1, at=at, reason=str(number)))

        with store.snapshot(LOCAL_TENANT) as tx:
            assert [change.reason for change in tx.changes.of([1])] == list("01234")

    def test_changes_are_listed_by_agent_and_time(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.changes.add(a_change(1))
            tx.changes.add(a_change(2, agent="bo", session="s"))
            tx.changes.add(a_change(3, at=LATER))

        def by(**conditions: object) -> list[int]:
            criteria = (
                dict.fromkeys(("agent", "session", "since", "until")) | {"limit": 9} | conditions
            )
            with store.snapshot(LOCAL_TENANT) as tx:
                return [change.memory_id for change in tx.changes.by(**criteria)]  # type: ignore[arg-type]

        assert by(agent="ann") == [3, 1]
        assert by(session="s") == [2]
        assert by(since=LATER) == [3]
        assert by(until=NOON, limit=1) == [2]

    def test_annotations_of_a_memory_are_listed_in_order(self, store: Store) -> None:
        first, second = (
            Annotation(memory_id=1, text=text, agent="bo", trust=Trust.USER_CLAIM, at=at)
            for text, at in (("too hot", NOON), ("cooled", LATER))
        )
        with store.begin(LOCAL_TENANT) as tx:
            dropped = tx.annotations.add(first)
            remaining = tx.annotations.add(second)
            assert [note.text for note in tx.annotations.of([1, 2])[1]] == ["too hot", "cooled"]
            tx.annotations.drop(dropped)

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.annotations.of([1, 2]) == {1: [replace(second, id=remaining)]}

    def test_reply_is_stored_under_agent_and_key(self, store: Store) -> None:
        reply = StoredReply(
            agent="ann", key="k", digest="d", body={"a": [1]}, memory_ids=(1,), at=NOON
        )
        with store.begin(LOCAL_TENANT) as tx:
            tx.records.save_reply(reply)

            assert tx.records.reply("ann", "k") == reply
            assert tx.records.reply("bo", "k") is None

    @pytest.mark.parametrize("kind", Kind)
    def test_scrubbing_leaves_no_word_of_a_forgotten_memory(
        self, open_store: OpenStore, kind: Kind
    ) -> None:
        store = open_store()
        memory = a_memory(1, "the hush is here", kind=kind, tags=("hush",), source_ref="hush.md")
        put(store, memory, a_memory(2, "bread"))
        note = Annotation(memory_id=1, text="hush", agent="bo", trust=Trust.USER_CLAIM, at=NOON)
        reply = StoredReply(
            agent="ann", key="k", digest="d", body={"t": "hush"}, memory_ids=(1,), at=NOON
        )
        with store.begin(LOCAL_TENANT) as tx:
            tx.annotations.add(note)
            tx.links.put(a_link(1, 2, basis="hush"))
            tx.changes.add(a_change(1, reason="hush", before={"tags": ("hush",)}))
            tx.records.save_reply(reply)

        with store.begin(LOCAL_TENANT) as tx:
            receipt = tx.scrub(1)

        assert receipt["annotations"] == receipt["links"] == receipt["idempotency"] == 1
        assert lexical(store, "hush") == nearest(store, "the hush is here") == []
        with store.snapshot(LOCAL_TENANT) as tx:
            [left] = tx.memories.get([1]).values()
            assert left.state is State.FORGOTTEN
            assert (left.body, left.tags, left.source_ref) == ("", (), None)
            assert left.detail == KINDS[kind].detail()
            assert tx.changes.of([1])[0].before == {}
            assert tx.records.reply("ann", "k") is None
            assert tx.links.touching([2]) == []

    def test_scrubbed_memory_leaves_no_byte_after_compaction(self, open_store: OpenStore) -> None:
        store = open_store()
        scrubbed = a_memory(1, "xylographer whispers", tags=("xylographer",))
        put(store, scrubbed, a_memory(2, "bread"))
        with store.begin(LOCAL_TENANT) as tx:
            tx.scrub(1)

        store.compact()

        assert b"xylograph" not in store_bytes(store)
        assert lexical(store, "bread") == [2]

    def test_compaction_does_not_wait_for_the_snapshot_of_its_own_call(
        self, open_store: OpenStore
    ) -> None:
        store = open_store()
        put(store, a_memory(1, "xylographer whispers"))
        with store.begin(LOCAL_TENANT) as tx:
            tx.scrub(1)

        # A server wraps each request so; compaction after a read once waited until it timed out.
        with store.consistent_reads():
            lexical(store, "bread")
            store.compact()

        assert b"xylograph" not in store_bytes(store)

    def test_query_scope_limits_by_person_scope_session_thread_and_state(
        self, open_store: OpenStore
    ) -> None:
        store = open_store()
        put(
            store,
            a_memory(1, "tea for Sam", people=("sam",), session="s1"),
            a_memory(2, "tea", kind=Kind.MESSAGE, detail=MessageDetail(sender="Bo")),
            a_memory(3, "old tea", state=State.ARCHIVED),
        )
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 3, pinned=True)

        assert lexical(store, "tea", scope=query_scope(people=("sam", "bo"))) == [2, 1]
        assert lexical(store, "tea", scope=query_scope(session="s1")) == [1]
        assert lexical(store, "tea", scope=query_scope(states=(State.ARCHIVED,))) == [3]
        assert lexical(store, "tea", scope=query_scope(thread=5)) == []

    def test_replies_stored_before_a_given_time_are_dropped(self, store: Store) -> None:
        old, new = (
            StoredReply(agent="ann", key=key, digest="d", body={"n": 1}, memory_ids=(1,), at=at)
            for key, at in (("old", NOON), ("new", LATER))
        )
        with store.begin(LOCAL_TENANT) as tx:
            tx.records.save_reply(old)
            tx.records.save_reply(new)
            tx.records.drop_replies(before=LATER)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.records.reply("ann", "old") is None
            assert tx.records.reply("ann", "new") == new

    def test_rule_is_found_by_its_skill_name_while_it_is_current(self, store: Store) -> None:
        skill = {"name": "push", "keywords": ["push"]}
        rule = a_memory(91, "Always push", kind=Kind.RULE, detail=RuleDetail(skill=skill))
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(rule)
            tx.memories.add(a_memory(92, "Never push", kind=Kind.RULE))
            assert tx.memories.with_skill("push") == [91]
            assert tx.memories.with_skill("pull") == []
            tx.memories.update(rule, replace(rule, state=State.FORGOTTEN))
            assert tx.memories.with_skill("push") == []

    def test_skill_triggers_of_current_rules_are_listed(self, open_store: OpenStore) -> None:
        store = open_store()
        trigger = {"name": "tea", "keywords": ["kettle"]}
        skill = a_memory(1, "warm it first", kind=Kind.RULE, detail=RuleDetail(skill=trigger))
        put(store, skill, a_memory(2, "no trigger", kind=Kind.RULE))
        put(store, replace(skill, id=3, semantic_hash="b", state=State.FORGOTTEN))

        with store.begin(LOCAL_TENANT) as tx:
            [(id_, known)] = tx.memories.skills(query_scope()).items()
            assert (id_, known.fields, known.authority) == (1, trigger, skill.authority)
            assert tx.memories.skills(query_scope(kinds=(Kind.FACT,))) == {}
            move(tx, 1, state=State.ARCHIVED)
            assert tx.memories.skills(query_scope(states=(State.ACTIVE,))) == {}

    def test_predecessor_of_a_superseding_memory_is_returned(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.SUPERSEDED, superseded_by=2, superseded_at=NOON)
            assert [tx.memories.predecessor(id_) for id_ in (1, 2, 99)] == [None, 1, None]

    def test_strongest_of_many_links_are_listed(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.put(a_link(1, 2, strength=0.2))
            tx.links.put(a_link(3, 1, strength=0.9))
            assert [link.from_id for link in tx.links.touching([1], limit=1)] == [3]

    def test_score_of_the_same_words_does_not_depend_on_the_scope(self, store: Store) -> None:
        put(store, *(a_memory(n, f"tea {n}", occurred_at=NOON + n * LAP) for n in range(10, 20)))
        with store.snapshot(LOCAL_TENANT) as tx:
            wide = {
                hit.id: hit.score
                for hit in tx.index.lexical(["tea", "15"], query_scope(), limit=20)
            }
            narrow = tx.index.lexical(["tea", "15"], query_scope(since=NOON + 14 * LAP), limit=20)
        assert len(narrow) == 6
        assert {hit.id: hit.score for hit in narrow}.items() <= wide.items()


def store_bytes(store: Store) -> bytes:
    """Read every byte that a store keeps on disk."""
    path = Path(store.location)
    files = path.parent.glob(f"{path.name}*")
    return b"".join(file.read_bytes() for file in files)
