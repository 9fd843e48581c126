"""What every store promises of the ledger and of model cards.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.model_card import SERVING, ModelCard, ModelRole, ModelState
from commonbrain.model.query import (
    MARKED_WITHIN,
    Candidate,
    ExclusionReason,
    Feedback,
    FeedbackEvent,
    FeedbackMark,
    RecallTrace,
    ShownExtent,
)
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.observability.tool_events import EventBatch
from commonbrain.storage.interface import EntryFilter
from commonbrain.storage.repositories.learning import Figure, StoredEvaluation
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import OpenStore

MINUTE = timedelta(minutes=1)


def a_trace(minute: int, *packed: int, session: str | None = "s1", **more: Any) -> RecallTrace:  # noqa: ANN401
    """Make what bo's recall leaves so many minutes after noon; 9 is considered and left out."""
    at = NOON + minute * MINUTE
    considered = [
        Candidate(
            memory=a_memory(id_, f"Kettle {id_}."), features={"fused": 0.5, "date": 0.0}, score=0.25
        )
        for id_ in (*packed, 9)
    ]
    plain = RecallTrace(
        id=ids.make_id(at, minute),
        caller=Caller(agent="bo", session=session),
        asked_at=at,
        query="Where is the kettle?",
        status=ResultStatus.FOUND,
        considered=tuple(considered),
        packed=packed,
        degraded=(),
        stages_ms={"retrieve": 1.5},
        left_out={9: ExclusionReason.OVER_BUDGET},
    )
    return replace(plain, **more)


def noted(store: Store, *traces: RecallTrace, retain_from: timedelta = -MINUTE) -> None:
    """Keep traces as a journal does."""
    store.note_reads(LOCAL_TENANT, traces=traces, accesses=[], retain_from=NOON + retain_from)


def marked(
    store: Store, trace: RecallTrace, *, memory: int = 5, mark: FeedbackMark = FeedbackMark.USED
) -> int:
    """Put one mark on a trace; count what is new."""
    feedback = Feedback(
        trace_id=trace.id, memory_id=memory, mark=mark, agent="bo", session="s1", at=NOON
    )
    with store.begin(LOCAL_TENANT) as tx:
        return tx.recall_log.mark([feedback])


def a_use(*ids_: int, minute: int) -> FeedbackEvent:
    """Make what bo does with memories so many minutes after noon."""
    at = NOON + minute * MINUTE
    return FeedbackEvent(
        tenant=LOCAL_TENANT, agent="bo", session="s1", ids=ids_, mark=FeedbackMark.USED, at=at
    )


def a_card(id_: int, **more: Any) -> ModelCard:  # noqa: ANN401
    """Make a candidate that was made at noon."""
    plain = ModelCard(
        id=id_,
        role=ModelRole.RERANKER,
        digest="0" * 64,
        features=("fused", "date"),
        told={"ndcg": 0.5},
        made_at=NOON,
        moved_at=NOON,
    )
    return replace(plain, **more)


def moved(store: Store, before: ModelCard, *, to: ModelState) -> ModelCard | None:
    """Bring a card into a state; None where another was faster, or its place is taken."""
    after = before.moved(to, at=before.moved_at + MINUTE, reason="tried")
    with store.begin(LOCAL_TENANT) as tx:
        return after if tx.models.move(before, after) else None


class LearningContract:
    """The promises of the ledger and the registry; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    def test_recall_is_read_as_recorded_with_its_marks(self, store: Store) -> None:
        trace = a_trace(1, 5, 6, ranker=77)
        noted(store, trace)
        assert marked(store, trace) == 1
        assert marked(store, trace, mark=FeedbackMark.USEFUL) == 1
        with store.snapshot(LOCAL_TENANT) as tx:
            (entry,) = tx.recall_log.entries(EntryFilter(), limit=10)
        assert (entry.id, entry.asked_at, entry.query) == (trace.id, trace.asked_at, trace.query)
        assert (entry.ranker, entry.packed, entry.session) == (77, (5, 6), "s1")
        assert [one.memory_id for one in entry.considered] == [5, 6, 9]
        assert [one.left_out for one in entry.considered] == [None, None, "no_room"]
        assert entry.considered[0].features == {"fused": 0.5}
        assert entry.marks == {5: {FeedbackMark.USED, FeedbackMark.USEFUL}}

    def test_mark_is_stored_once_and_never_on_an_absent_trace(self, store: Store) -> None:
        trace, lost = a_trace(1, 5), a_trace(2, 5)
        noted(store, trace)
        assert [marked(store, trace), marked(store, trace)] == [1, 0]
        assert marked(store, lost) == 0

    def test_dropping_old_traces_drops_their_marks(self, store: Store) -> None:
        trace = a_trace(1, 5)
        noted(store, trace)
        marked(store, trace)
        noted(store, a_trace(3, 5), retain_from=2 * MINUTE)
        noted(store, trace)
        with store.snapshot(LOCAL_TENANT) as tx:
            entries = tx.recall_log.entries(EntryFilter(), limit=10)
        assert [entry.marks for entry in entries] == [{}, {}]

    def test_latest_recall_of_the_session_that_showed_a_memory_is_returned(
        self, store: Store
    ) -> None:
        first, second = a_trace(1, 5, 6), a_trace(2, 6)
        noted(store, first, second, a_trace(3, 5, session="s2"), a_trace(4, 5, session=None))
        used = a_use(5, 6, 7, minute=5)
        long_after = replace(used, at=NOON + MARKED_WITHIN + 2 * MINUTE)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.recall_log.showing(used) == {5: first.id, 6: second.id}
            assert tx.recall_log.showing(replace(used, at=NOON + MINUTE)) == {
                5: first.id,
                6: first.id,
            }
            assert tx.recall_log.showing(long_after) == {6: second.id}
            assert tx.recall_log.showing(replace(used, agent="al")) == {}
            assert set(tx.recall_log.showing(replace(used, session=None))) == {5}

    def test_fetching_a_memory_that_was_shown_in_full_is_no_feedback(self, store: Store) -> None:
        extents = {5: ShownExtent.WHOLE, 6: ShownExtent.HEADLINE, 7: ShownExtent.BARE}
        first, second = (
            a_trace(1, 5, 6, 7, extents=extents),
            a_trace(2, 6, extents={6: ShownExtent.WHOLE}),
        )
        noted(store, first, second)
        fetched = replace(a_use(5, 6, 7, minute=3), is_fetch=True)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.recall_log.showing(fetched) == {7: first.id}
            (entry, _) = tx.recall_log.entries(EntryFilter(), limit=5)
        assert [one.shown for one in entry.considered] == [*extents.values(), None]

    def test_use_is_marked_on_the_recall_that_showed_the_memory_and_otherwise_returned(
        self, store: Store
    ) -> None:
        noted(store, a_trace(1, 5))
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.recall_log.credit(a_use(5, 6, minute=2)) == [6]
            assert tx.recall_log.credit(a_use(5, minute=3)) == []
        happened = EventBatch(events=(), retained_since=NOON, uses=[a_use(6, minute=4)])
        later = a_trace(3, 6)
        store.note_reads(
            LOCAL_TENANT, traces=[later], accesses=[], happened=happened, retain_from=NOON
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            entries = tx.recall_log.entries(EntryFilter(is_marked=True), limit=5)
        assert [entry.marks for entry in entries] == [
            {5: {FeedbackMark.USED}},
            {6: {FeedbackMark.USED}},
        ]

    def test_recalls_are_selected_by_time_model_and_marks(self, store: Store) -> None:
        traces = [a_trace(1, 5), a_trace(2, 5, ranker=77), a_trace(3, 5)]
        noted(store, *traces)
        marked(store, traces[2])
        with store.snapshot(LOCAL_TENANT) as tx:

            def entry_ids(criteria: EntryFilter, *, after: int = 0, limit: int = 10) -> list[int]:
                entries = tx.recall_log.entries(criteria, after=after, limit=limit)
                return [traces.index(one) + 1 for e in entries for one in traces if one.id == e.id]

            assert entry_ids(EntryFilter()) == [1, 2, 3]
            assert entry_ids(EntryFilter(), after=traces[0].id, limit=1) == [2]
            assert entry_ids(EntryFilter(since=NOON + 2 * MINUTE)) == [2, 3]
            assert entry_ids(EntryFilter(until=NOON + 3 * MINUTE)) == [1, 2]
            assert entry_ids(EntryFilter(ranker=77)) == [2]
            assert entry_ids(EntryFilter(is_marked=True)) == [3]
            assert entry_ids(EntryFilter(agent="al")) == entry_ids(EntryFilter(session="s2")) == []
            assert entry_ids(EntryFilter(agent="bo", session="s1")) == [1, 2, 3]
            latest = tx.recall_log.latest(EntryFilter(), before=traces[2].id, limit=1)
            assert [one.id for one in latest] == [traces[1].id]
            brief = tx.recall_log.latest(EntryFilter(), limit=1, is_brief=True)
            assert [(one.id, one.considered, one.packed) for one in brief] == [
                (traces[2].id, (), (5,))
            ]
            assert entry_ids(EntryFilter(is_by_weights=True)) == [1, 3]
            # The random bits of an id draw it: of 2 in 2 million, only the first is below.
            assert entry_ids(EntryFilter(share=2 / 2**ids.RANDOM_BITS)) == [1]

    def test_model_card_is_read_as_it_was_stored(self, store: Store) -> None:
        card = a_card(1, parent=7, percent=5.0, allow=("bo",), reason="tried")
        with store.begin(LOCAL_TENANT) as tx:
            assert [tx.models.add(card), tx.models.add(card)] == [True, False]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.models.get(1) == card
            assert tx.models.get(2) is None
            assert tx.models.listed(ModelRole.RERANKER, limit=5) == [card]
            assert tx.models.listed(ModelRole.SALIENCE, limit=5) == []
            assert tx.models.serving(ModelRole.RERANKER) == []

    def test_one_model_can_be_active_while_another_is_canary(self, store: Store) -> None:
        one, two = a_card(1), a_card(2)
        with store.begin(LOCAL_TENANT) as tx:
            tx.models.add(one)
            tx.models.add(two)
        canary = moved(store, one, to=ModelState.CANARY)
        assert canary is not None
        assert moved(store, two, to=ModelState.CANARY) is None
        active = moved(store, canary, to=ModelState.ACTIVE)
        assert active is not None
        assert moved(store, two, to=ModelState.CANARY) is not None
        with store.snapshot(LOCAL_TENANT) as tx:
            states = {card.id: card.state for card in tx.models.serving(ModelRole.RERANKER)}
            assert tx.models.get(1) == active
        assert states == {1: ModelState.ACTIVE, 2: ModelState.CANARY}

    def test_concurrent_second_move_of_a_model_card_writes_nothing(self, store: Store) -> None:
        card = a_card(1)
        with store.begin(LOCAL_TENANT) as tx:
            tx.models.add(card)
        assert moved(store, card, to=ModelState.CANARY) is not None
        assert moved(store, card, to=ModelState.RETIRED) is None

    def test_model_cards_are_paged_and_a_digest_is_dropped_unless_the_card_changed(
        self, store: Store
    ) -> None:
        cards = [a_card(id_, digest=f"{id_:064x}") for id_ in (1, 2, 3)]
        without_artifact = replace(cards[0], digest="")
        with store.begin(LOCAL_TENANT) as tx:
            assert all(map(tx.models.add, cards))
            assert tx.models.has_artifact(cards[0].digest)
            assert tx.models.move(cards[0], without_artifact)
            assert not tx.models.has_artifact(cards[0].digest)
        assert moved(store, cards[0], to=ModelState.CANARY) is None
        store.make_tenant("other", at=NOON)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.models.listed(before=3, limit=1) == [cards[1]]
            assert tx.models.listed(ModelRole.RERANKER, before=2, limit=5) == [without_artifact]
            assert tx.models.listed(ModelRole.SALIENCE, before=3, limit=5) == []
        with store.snapshot("other") as tx:
            assert not tx.models.has_artifact(cards[1].digest)

    def test_model_without_its_artifact_cannot_serve_again(self) -> None:
        without_artifact = a_card(1, state=ModelState.RETIRED, digest="")
        for to in SERVING:
            with pytest.raises(RejectedError, match="dropped") as refused:
                without_artifact.moved(to, at=NOON)
            assert refused.value.code == "artifact_dropped"

    def test_model_that_was_rolled_back_cannot_serve_again(self) -> None:
        with pytest.raises(RejectedError, match="rolled_back and cannot become canary"):
            a_card(1, state=ModelState.ROLLED_BACK).moved(ModelState.CANARY, at=NOON)

    def test_evaluations_are_stored_once_and_listed_by_name_newest_first(
        self, store: Store
    ) -> None:
        evaluation = Figure(mean=0.6667, low=0.2077, high=0.9385, count=3)
        first = StoredEvaluation(
            id=1,
            name="self",
            at=NOON,
            agent="bo",
            figures={"hit_1": evaluation},
            setup={"seed": 3, "lacks": ["vector"]},
            took_ms={"p50": 1.5},
        )
        with store.begin(LOCAL_TENANT) as tx:
            is_new = [tx.evaluations.add(one) for one in (first, first, replace(first, id=2))]
            assert is_new == [True, False, True]
            tx.evaluations.add(replace(first, id=3, name="other"))
        store.make_tenant("other", at=NOON)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert [one.id for one in tx.evaluations.listed("self", limit=5)] == [2, 1]
            assert tx.evaluations.listed("self", limit=5)[1] == first
            assert len(tx.evaluations.listed("self", limit=1)) == 1
        with store.snapshot("other") as tx:
            assert tx.evaluations.listed("self", limit=5) == []

    def test_latest_evaluations_of_each_name_are_retained(self, store: Store) -> None:
        def one(id_: int, name: str = "self") -> StoredEvaluation:
            return StoredEvaluation(
                id=id_, name=name, at=NOON, agent="bo", figures={}, setup={}, took_ms={}
            )

        store.make_tenant("other", at=NOON)
        for tenant in (LOCAL_TENANT, "other"):
            with store.begin(tenant) as tx:
                assert all(map(tx.evaluations.add, map(one, (5, 1, 4, 2, 3))))
                assert tx.evaluations.add(one(6, "rare"))
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.evaluations.surplus(newest=2) == 3
            assert tx.evaluations.drop(newest=2, limit=2) == 2
            assert [it.id for it in tx.evaluations.listed("self", limit=9)] == [5, 4, 3]
            assert [tx.evaluations.drop(newest=2, limit=2) for _ in range(2)] == [1, 0]
            assert [it.id for it in tx.evaluations.listed("rare", limit=9)] == [6]
        with store.snapshot("other") as tx:
            assert tx.evaluations.surplus(newest=2) == 3

    def test_recalls_and_models_are_not_visible_to_another_tenant(self, store: Store) -> None:
        noted(store, a_trace(1, 5))
        with store.begin(LOCAL_TENANT) as tx:
            tx.models.add(a_card(1))
        store.make_tenant("other", at=NOON)
        with store.snapshot("other") as tx:
            assert tx.recall_log.entries(EntryFilter(), limit=10) == []
            assert tx.recall_log.showing(a_use(5, minute=2)) == {}
            assert tx.models.get(1) is None
