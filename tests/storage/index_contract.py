"""What every store promises of finding: by words, by vectors, and never what a scope forbids.

A subclass gives `open_store`, as for `StoreContract`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import CausalField, Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.revision import Action, BeliefPeriod
from commonbrain.model.scope import LOCAL_TENANT, Scope, Trust
from commonbrain.retrieval.plan import search_terms
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from commonbrain.text.search_words import extra_words, names_to_repeat
from tests.storage.store_steps import (
    EMBEDDER,
    OpenStore,
    a_change,
    lexical,
    move,
    nearest,
    put,
    query_scope,
    random_vectors,
    vectors_for,
)


class IndexContract:
    """The promises of the index; each test opens its own store."""

    many = 1500
    """More vectors than SQLite scores exactly (500) or reads at a time (1000)."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    @pytest.mark.requirement("RT-43")
    def test_score_by_words_says_how_rare_they_are(self, store: Store) -> None:
        texts = ["teapots whistle", *(f"pot {n} must boil" for n in range(100, 160))]
        put(store, *(a_memory(n, text) for n, text in enumerate(texts, 1)))

        def best(*terms: str) -> float:
            with store.snapshot(LOCAL_TENANT) as tx:
                return tx.index.lexical(terms, query_scope(), limit=9)[0].score

        assert best("teapots") > 0.9
        assert best("teapots", "must") > 0.6
        assert best("teapots", "whistle") > 1.2
        assert best("must") < 0.1 > best("must", "never")

    @pytest.mark.requirement("DM-25", "EV-12")
    @pytest.mark.parametrize(
        ("memory", "scope"),
        [
            (a_memory(1, "tea", scope=Scope.PRIVATE, agent="bo"), query_scope()),
            (a_memory(1, "tea", state=State.QUARANTINED), query_scope()),
            (a_memory(1, "tea", expires_at=NOON), query_scope()),
            (a_memory(1, "tea", trust=Trust.UNTRUSTED_WEB), query_scope()),
            (a_memory(1, "tea", project="api"), query_scope(project="web")),
            (a_memory(1, "tea"), query_scope(kinds=(Kind.RULE,))),
            (a_memory(1, "tea"), query_scope(labels=("decision",))),
            (a_memory(1, "tea", tags=("hot",)), query_scope(tags=("hot", "sweet"))),
            (a_memory(1, "tea"), query_scope(agent="bo")),
            (a_memory(1, "tea"), query_scope(since=NOON + timedelta(seconds=1))),
            (a_memory(1, "tea"), query_scope(until=NOON - timedelta(seconds=1))),
            (a_memory(1, "tea"), query_scope(min_confidence=0.9)),
            (a_memory(1, "tea"), query_scope(as_of=NOON - timedelta(seconds=1))),
        ],
    )
    def test_no_retriever_returns_a_memory_outside_the_scope(
        self, store: Store, memory: Memory, scope: QueryScope
    ) -> None:
        put(store, memory)

        assert lexical(store, "tea", scope=scope) == []
        assert nearest(store, "tea", scope=scope) == []
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.memories.newest(scope, limit=5) == []
            assert not tx.memories.any(scope)

    @pytest.mark.parametrize(
        ("memory", "scope"),
        [
            (a_memory(1, "tea", scope=Scope.PRIVATE), query_scope()),
            (a_memory(1, "tea"), query_scope(project="web")),
            (a_memory(1, "tea", project="web"), query_scope(project="web")),
            (a_memory(1, "tea", tags=("hot", "sweet")), query_scope(tags=("sweet", "hot"))),
            (a_memory(1, "tea", trust=Trust.UNTRUSTED_WEB), query_scope(trust_min=0.3)),
            (a_memory(1, "tea"), query_scope(since=NOON, until=NOON)),
            (a_memory(1, "tea", state=State.ARCHIVED), query_scope()),
            (a_memory(1, "tea"), query_scope(as_of=NOON)),
        ],
    )
    def test_every_retriever_returns_a_memory_within_the_scope(
        self, store: Store, memory: Memory, scope: QueryScope
    ) -> None:
        put(store, memory)

        assert lexical(store, "tea", scope=scope) == [1]
        assert nearest(store, "tea", scope=scope) == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert [hit.id for hit in tx.memories.newest(scope, limit=5)] == [1]
            assert tx.memories.any(scope)

    def test_search_sees_what_its_own_transaction_has_hidden(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"), a_memory(2, "tea is cold"))
        query, scope = EMBEDDER.query("tea"), query_scope()
        with store.begin(LOCAL_TENANT) as tx:
            for shown in ([1, 2], [2]):
                hits = tx.index.lexical(["tea"], scope, limit=5)
                near = tx.index.nearest(query, scope, limit=5)
                assert sorted(hit.id for hit in hits) == sorted(hit.id for hit in near) == shown
                move(tx, 1, scope=Scope.PRIVATE, agent="bob")

    def test_dropped_memory_can_be_indexed_again_with_other_words(self, store: Store) -> None:
        memory = a_memory(1, "tea is ready")
        put(store, memory)
        with store.begin(LOCAL_TENANT) as tx:
            tx.index.drop(1)
        assert lexical(store, "tea") == nearest(store, "tea is ready") == []

        with store.begin(LOCAL_TENANT) as tx:
            tx.index.put(memory, vectors_for(memory))
            move(tx, 1, tags=("kettle",))
            tx.index.reword(replace(memory, tags=("kettle",)))

        assert lexical(store, "tea") == lexical(store, "kettle") == [1]
        assert nearest(store, "tea is ready") == [1]

    @pytest.mark.requirement("PV-04")
    def test_superseded_memory_is_returned_only_as_of_an_earlier_time(self, store: Store) -> None:
        put(store, a_memory(1, "the port is 80"), a_memory(2, "the port is 81"))
        with store.begin(LOCAL_TENANT) as tx:
            over = NOON + timedelta(days=1)
            move(tx, 1, state=State.SUPERSEDED, superseded_by=2, superseded_at=over)
            believed = BeliefPeriod(since=NOON, until=over)
            tx.changes.add(a_change(1, action=Action.SUPERSEDE, at=over, believed=believed))

        now = query_scope(now=timedelta(days=3))
        then = query_scope(now=timedelta(days=3), as_of=NOON + timedelta(hours=1))
        assert lexical(store, "port", scope=now) == [2]
        assert 1 in lexical(store, "port", scope=then)
        assert 1 in nearest(store, "the port is 80", scope=then)

    @pytest.mark.parametrize(
        "term", ['"', "NEAR(", "a*", "-x", "^tea", "AND", "tea OR", "{}", ":", "(", "'", "\x00", ""]
    )
    @pytest.mark.requirement("EV-11")
    def test_no_term_is_read_as_an_operator(self, store: Store, term: str) -> None:
        put(store, a_memory(1, "tea is ready"))

        assert set(lexical(store, term, "tea")) == {1}

    def test_search_without_terms_returns_nothing(self, store: Store) -> None:
        put(store, a_memory(1, "The kettle is in the blue cupboard."))
        assert lexical(store) == []
        assert lexical(store, scope=query_scope(field=CausalField.OUTCOME)) == []

    def test_words_are_stemmed_and_accents_ignored(self, store: Store) -> None:
        put(store, a_memory(1, "We are migrating the café's database"))

        assert lexical(store, "migrate") == lexical(store, "cafe") == [1]

    @pytest.mark.parametrize(
        ("text", "others", "asked"),
        [
            ("Use \U0001f680 for releases", "Use \U0001f41b for bugs", "\U0001f680"),
            ("a81bc81d broke it", "a81bc82d broke it", "a81bc81de00b2f9b"),
            ("a81bc81de00b2f9b broke it", "a81bc82d broke it", "a81bc81"),
            ("我们用React写", "我们用Vue写", "React"),
            ("端口是\uff18\uff10\uff18\uff10", "端口是9090", "8080"),
        ],
    )
    def test_hashes_emoji_and_embedded_names_are_found(
        self, store: Store, text: str, others: str, asked: str
    ) -> None:
        put(store, a_memory(1, text), a_memory(2, others), a_memory(3, "Ours", tags=(asked,)))

        assert sorted(lexical(store, *(extra_words(asked) or [asked.lower()]))) == [1, 3]

    @pytest.mark.requirement("RT-41")
    @pytest.mark.parametrize(
        ("right", "others", "asked"),
        [
            ("我们用React写前端", ("后端是Go写的", "什么都不用改"), "前端用什么"),
            ("我们用React写前端", ("数据库怎么升级", "怎么升级网关"), "React怎么升级"),
            ("サーバーが止まった", ("メモが止まった", "データが消える"), "オーバーサーバ"),
            ("設定を戻す", ("設計をする", "予定を決める"), "何に戻した?"),
            ("서버를 다시 켠다", ("화면을 다시 켠다", "로그를 본다"), "서버는 왜"),
            ("세션은 Redis에서 읽는다", ("세션은 파일에서 읽는다", "읽는다"), "Redis는 세션"),
            ("เก็บแคชไว้ในRedis", ("ใช้ที่ทำงาน", "ที่ไหนใช้ก็ได้"), "ใช้Redisที่ไหน"),
            ("หน้าชำระเงิน", ("หน้าค้นหา", "รายงาน"), "ชำระ"),
        ],
    )
    def test_rarest_words_decide_in_scripts_without_blanks(
        self, store: Store, right: str, others: Sequence[str], asked: str
    ) -> None:
        put(store, *(a_memory(id_, text) for id_, text in enumerate((*others, right), 1)))
        terms = search_terms(asked)

        assert lexical(store, *terms, *names_to_repeat(terms))[0] == 3

    def test_memory_is_found_by_its_tags_project_and_label(self, store: Store) -> None:
        put(store, a_memory(1, "tea", tags=("oolong",), project="kettle", label="drink"))

        assert (
            lexical(store, "oolong") == lexical(store, "kettle") == lexical(store, "drink") == [1]
        )

    def test_vector_search_returns_the_nearest_of_many_memories(self, store: Store) -> None:
        vectors = random_vectors(self.many)
        _put_vectors(store, vectors)
        query = vectors[200] + vectors[3] * 0.5
        query /= np.linalg.norm(query)

        with store.snapshot(LOCAL_TENANT) as tx:
            ids = [hit.id for hit in tx.index.nearest(query, query_scope(), limit=10)]

        exact = (np.argsort(-(vectors @ query))[:10] + 1).tolist()
        assert ids[:2] == exact[:2] == [201, 4]
        assert len(set(ids) & set(exact)) >= 8

    @pytest.mark.requirement("DM-25")
    def test_search_with_a_narrow_scope_still_returns_as_many_as_the_limit(
        self, store: Store
    ) -> None:
        every = self.many // 15
        vectors = random_vectors(self.many)
        _put_vectors(store, vectors, rare=range(0, self.many, every))

        with store.snapshot(LOCAL_TENANT) as tx:
            scope = query_scope(labels=("rare",))
            ids = [hit.id for hit in tx.index.nearest(vectors[1], scope, limit=10)]

        assert len(ids) == 10
        assert all(id_ % every == 1 for id_ in ids)

    def test_best_window_of_a_memory_decides_its_score(self, store: Store) -> None:
        memory = a_memory(1, "long")
        far, near = random_vectors(2)
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(memory)
            tx.index.put(memory, Vectors(windows=np.stack([far, near])))

        with store.snapshot(LOCAL_TENANT) as tx:
            [hit] = tx.index.nearest(near, query_scope(), limit=5)
            similar = tx.index.similarities(near, [1, 99])

        assert hit.score == pytest.approx(1, abs=1e-2)
        assert similar == {1: hit.score}

    @pytest.mark.requirement("JB-01")
    def test_memory_without_a_vector_is_similar_to_no_other(self, store: Store) -> None:
        put(store, a_memory(1, "tea cup"))
        put(store, a_memory(2, "tea cup"))
        put(store, a_memory(3, "garden gate"))
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(4, "tea pot"))
            tx.index.put(a_memory(4, "tea pot"), None)

        with store.snapshot(LOCAL_TENANT) as tx:
            [first, second, third, fourth] = tx.index.cosines([2, 3, 1, 4])

        assert first == pytest.approx([1, second[0], 1, 0], abs=1e-3)
        assert second == pytest.approx([second[0], 1, second[0], 0], abs=1e-3)
        assert third == pytest.approx(first, abs=1e-3)
        assert (second[0] < 1, fourth) == (True, [0, 0, 0, 0])

    @pytest.mark.requirement("LC-20")
    def test_only_the_own_tenant_reads_the_first_window_of_a_memory(self, store: Store) -> None:
        first, second = random_vectors(2)
        with store.begin(LOCAL_TENANT) as tx:
            for id_, windows in ((1, [first, second]), (2, [second]), (3, [first])):
                tx.memories.add(a_memory(id_, f"number {id_}"))
                tx.index.put(a_memory(id_, f"number {id_}"), Vectors(windows=np.stack(windows)))
            tx.memories.add(a_memory(4, "tea pot"))
            tx.index.put(a_memory(4, "tea pot"), None)
            tx.index.drop(3)
            own = tx.index.first_windows([1])
        assert own[1] == pytest.approx(first, abs=1e-3)

        with store.snapshot(LOCAL_TENANT) as tx:
            first_windows = tx.index.first_windows([2, 4, 1, 3, 99])
            assert tx.index.first_windows([]) == {}
        assert {id_: one.dtype for id_, one in first_windows.items()} == {
            1: np.float32,
            2: np.float32,
        }
        assert first_windows[1] == pytest.approx(first, abs=1e-3)
        assert first_windows[2] == pytest.approx(second, abs=1e-3)
        with store.snapshot("other") as tx:
            assert tx.index.first_windows([1, 2]) == {}

    def test_memory_without_a_vector_is_pending_and_found_by_words(self, store: Store) -> None:
        memory = a_memory(1, "tea is ready")
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(memory)
            tx.index.put(memory, None)

        assert lexical(store, "tea") == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.missing_embeddings.pending() == 1
            assert tx.missing_embeddings.oldest(limit=5) == [1]

    @pytest.mark.requirement("WP-34")
    def test_memory_embedded_later_is_found_by_vector_search(self, store: Store) -> None:
        _put_pending(store, a_memory(1, "tea is ready"), a_memory(2, "builds went red"))

        assert _embed(store, 1, text="tea is ready")

        assert nearest(store, "tea is ready") == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            missing = tx.missing_embeddings
            assert (missing.pending(), missing.oldest(limit=5)) == (
                1,
                [2],
            )

    def test_pending_memories_are_listed_oldest_first_up_to_the_limit(self, store: Store) -> None:
        _put_pending(store, *(a_memory(number, f"note {number}") for number in (3, 1, 2)))

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.missing_embeddings.oldest(limit=2) == [1, 2]

    def test_memory_superseded_before_embedding_still_gets_its_vectors(self, store: Store) -> None:
        _put_pending(store, a_memory(1, "the port is 80"), a_memory(2, "the port is 81"))
        with store.begin(LOCAL_TENANT) as tx:
            over = NOON + timedelta(days=1)
            move(tx, 1, state=State.SUPERSEDED, superseded_by=2, superseded_at=over)
            believed = BeliefPeriod(since=NOON, until=over)
            tx.changes.add(a_change(1, action=Action.SUPERSEDE, at=over, believed=believed))

        assert _embed(store, 1, text="the port is 80")

        then = query_scope(now=timedelta(days=3), as_of=NOON + timedelta(hours=1))
        assert nearest(store, "the port is 80", scope=then) == [1]

    def test_only_a_searchable_memory_without_vectors_is_embedded(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"))
        _put_pending(store, a_memory(2, "builds went red"))
        with store.begin(LOCAL_TENANT) as tx:
            tx.index.drop(2)
            move(tx, 2, state=State.FORGOTTEN)

        for memory_id in (1, 2, 99):
            assert not _embed(store, memory_id, text="builds went red")

        assert nearest(store, "builds went red") == []
        with store.snapshot(LOCAL_TENANT) as tx:
            missing = tx.missing_embeddings
            assert (missing.pending(), missing.oldest(limit=5)) == (
                0,
                [],
            )

    def test_embedding_that_is_rolled_back_leaves_the_memory_pending(self, store: Store) -> None:
        _put_pending(store, a_memory(1, "tea is ready"))

        with pytest.raises(ZeroDivisionError), store.begin(LOCAL_TENANT) as tx:
            assert tx.index.embed(1, vectors_for(a_memory(1, "tea is ready")))
            raise ZeroDivisionError

        assert nearest(store, "tea is ready") == []
        assert _embed(store, 1, text="tea is ready")

    def test_tenant_cannot_embed_memories_of_another(self, store: Store) -> None:
        _put_pending(store, a_memory(1, "tea is ready"))

        with store.begin("other") as tx:
            assert tx.missing_embeddings.oldest(limit=5) == []
            assert not tx.index.embed(1, vectors_for(a_memory(1, "tea is ready")))

    def test_vectors_of_unsearchable_memories_are_dropped(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"), a_memory(2, "so is cake"))
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 2, state=State.FORGOTTEN)
            assert tx.index.drop_unsound_vectors() == 1
            assert tx.index.drop_unsound_vectors() == 0

        assert nearest(store, "tea is ready") == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.missing_embeddings.oldest(limit=5) == []
            assert tx.index.similarities(random_vectors(1)[0], [2]) == {}

    def test_search_with_a_narrow_scope_returns_its_memories_among_a_few_hundred(
        self, store: Store
    ) -> None:
        vectors = random_vectors(400)
        _put_vectors(store, vectors, rare=range(0, 400, 80))
        with store.snapshot(LOCAL_TENANT) as tx:
            rare = tx.index.nearest(vectors[1], query_scope(labels=("rare",)), limit=10)
        assert sorted(hit.id for hit in rare) == [1, 81, 161, 241, 321]

    def test_memories_below_the_similarity_limit_are_omitted(self, store: Store) -> None:
        vectors = random_vectors(min(700, self.many))
        _put_vectors(store, vectors, rare=[3])
        with store.snapshot(LOCAL_TENANT) as tx:
            scope = query_scope(labels=("rare",))
            near = tx.index.nearest(vectors[3], scope, limit=5, at_least=0.9)
            far = tx.index.nearest(vectors[4], scope, limit=5, at_least=0.9)
        assert ([hit.id for hit in near], far) == ([4], [])

    def test_rewritten_words_replace_the_old_ones_in_full_text(self, store: Store) -> None:
        memory = a_memory(1, "tea is ready")
        put(store, a_memory(1, "cake is ready"))
        fractions: list[float] = []
        with store.begin(LOCAL_TENANT) as tx:
            tx.index.reword(memory)
        assert (lexical(store, "tea"), lexical(store, "cake")) == ([1], [])

        # The rows are the truth: they still say cake.
        assert store.rebuild_text(fractions.append) == 1
        assert (lexical(store, "tea"), lexical(store, "cake")) == ([], [1])
        assert fractions == [1.0]


def _put_pending(store: Store, *memories: Memory) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        for memory in memories:
            tx.memories.add(memory)
            tx.index.put(memory, None)


def _embed(store: Store, memory_id: int, *, text: str) -> bool:
    with store.begin(LOCAL_TENANT) as tx:
        return tx.index.embed(memory_id, vectors_for(a_memory(memory_id, text)))


def _put_vectors(store: Store, vectors: Matrix, *, rare: Sequence[int] = ()) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        for place, vector in enumerate(vectors):
            label = "rare" if place in rare else "usual"
            memory = a_memory(place + 1, f"number {place}", label=label)
            tx.memories.add(memory)
            tx.index.put(memory, Vectors(windows=vector[None, :]))
