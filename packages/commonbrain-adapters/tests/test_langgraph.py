import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.parameters import Parameters
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import OnSecret, Trust
from commonbrain.testing.builders import FakeClock, a_brain
from tests.secrets import SECRETS

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

from commonbrain_adapters.langgraph import CommonbrainStore
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

USER = ("users", "ada")


@pytest.fixture
def store(brain: Brain) -> CommonbrainStore:
    return CommonbrainStore(brain)


def keys(items: list[Any]) -> list[str]:
    return [item.key for item in items]


VALUES: dict[str, dict[str, Any]] = {
    "empty": {},
    "of every type": {"a": [1.5, 10**30, None, True, "", " x \x00 é e\u0301 \r\n", {}, []]},
    "an answer of recall": {"text": f"{HEADING}\n[1] mem_38G0GR8GK1GSC | rule"},
    "long": {"text": "x" * 100_000},
    "marked": {"text": "[decision: we use Postgres]"},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_value_is_returned_exactly(store: CommonbrainStore, value: dict[str, Any]) -> None:
    store.put(USER, "k", value)
    item = store.get(USER, "k")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "k", USER)
    store.put(USER, "k", {"other": 1})
    store.put(USER, "k", value)
    assert store.search(USER)[0].value == value


def test_new_value_supersedes_the_old_one(
    brain: Brain, store: CommonbrainStore, clock: FakeClock
) -> None:
    begun = clock.now()
    store.put(USER, "food", {"likes": "pizza"})
    clock.move(timedelta(hours=1))
    store.put(USER, "food", {"likes": "pasta"})
    item = store.get(USER, "food")
    assert item is not None
    assert item.value == {"likes": "pasta"}
    assert (item.created_at, item.updated_at) == (begun, clock.now())
    [old] = brain.list(states=["superseded"]).memories
    assert brain.get(old.id).body == "pizza"


def test_deleted_value_is_forgotten_and_can_be_stored_again(
    brain: Brain, store: CommonbrainStore
) -> None:
    store.put(USER, "food", {"likes": "pizza"})
    store.delete(USER, "food")
    store.delete(USER, "food")
    assert store.get(USER, "food") is None
    assert store.search(USER) == []
    assert len(brain.list(states=["forgotten"]).memories) == 1
    store.put(USER, "food", {"likes": "pizza"})
    assert store.get(USER, "food") is not None


def test_equal_values_under_different_keys_and_namespaces_stay_separate(
    store: CommonbrainStore,
) -> None:
    places = [(USER, "a"), (USER, "b"), (("users", "bo"), "a"), (("users",), "ada"), (USER, "A")]
    for namespace, key in places:
        store.put(namespace, key, {"likes": "pizza"})
    store.delete(USER, "a")
    left = {(one.namespace, one.key) for one in store.search(("users",))}
    assert left == set(places[1:])


@pytest.mark.parametrize("part", ["a/b", "a#b", "%", "ä 東", " a  b ", "*", "x" * 600, "a\n"])
def test_any_text_is_allowed_as_a_namespace_label_and_a_key(
    store: CommonbrainStore, part: str
) -> None:
    store.put(("users", part), part, {"n": 1})
    store.put(("users", part.strip("x") + "y"), part, {"n": 2})
    assert [one.value for one in store.search(("users", part))] == [{"n": 1}]
    item = store.get(("users", part), part)
    assert item is not None
    assert (item.namespace, item.key) == (("users", part), part)
    assert ("users", part) in store.list_namespaces()


def test_invalid_namespace_is_refused(store: CommonbrainStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "x"), "k", {})
    with pytest.raises(InvalidInputError, match="48"):
        store.put(tuple("a" * 49), "k", {})


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "b"),
    ({"n": {"$eq": 2}}, "b"),
    ({"n": {"$ne": 2}}, "acd"),
    ({"n": {"$gt": 1, "$lte": 3}}, "bc"),
    ({"n": {"$gte": 2}}, "bc"),
    ({"n": {"$lt": 2}}, "a"),
    ({"n": {"$gt": "1.5"}}, "bc"),
    ({"name": {"$gt": "bea"}}, "cd"),
    ({"nested": {"deep": {"$gte": 1}}}, "a"),
    ({"nested": {"deep": 1}}, "a"),
    ({"tags": ["x", "y"]}, "a"),
    ({"n": 2, "name": "bea"}, "b"),
    ({"n": 2, "name": "ada"}, ""),
    ({"absent": None}, "abcd"),
    ({"nested": {"$gt": 1}}, ""),
]


def test_filter_compares_the_fields_of_values(
    store: CommonbrainStore, subtests: pytest.Subtests
) -> None:
    store.put(USER, "a", {"n": 1, "name": "ada", "nested": {"deep": 1}, "tags": ["x", "y"]})
    store.put(USER, "b", {"n": 2, "name": "bea"})
    store.put(USER, "c", {"n": 3.0, "name": "cleo"})
    store.put(USER, "d", {"name": "dan"})
    for condition, expected in FILTERS:
        with subtests.test(condition=condition, expected=expected):
            assert sorted(keys(store.search(USER, filter=condition))) == list(expected)
            assert sorted(keys(store.search(USER, query="ada", filter=condition))) == list(expected)


def test_unknown_filter_operator_is_refused(store: CommonbrainStore) -> None:
    store.put(USER, "a", {"n": 1})
    with pytest.raises(ValueError, match="operator"):
        store.search(USER, filter={"n": {"$in": [1]}})


def test_pages_of_a_search_cover_all_items_once(store: CommonbrainStore) -> None:
    store.batch([PutOp(USER, f"k{n:03}", {"text": f"note {n}"}) for n in range(250)])
    for query in (None, "note 7"):
        pages = [store.search(USER, query=query, limit=60, offset=at) for at in range(0, 300, 60)]
        assert [len(page) for page in pages] == [60, 60, 60, 60, 10]
        assert len({one.key for page in pages for one in page}) == 250


def test_query_ranks_by_meaning_with_unindexed_items_last(
    store: CommonbrainStore,
) -> None:
    store.put(USER, "tea", {"text": "Ada drinks green tea"})
    store.put(USER, "car", {"text": "Ada drives a red car"})
    store.put(USER, "hidden", {"text": "green tea"}, index=False)
    store.put(("users", "bo"), "tea", {"text": "Bo drinks green tea"})
    best, *rest = store.search(USER, query="green tea")
    assert best.key == "tea"
    assert best.score is not None
    assert best.score > 0
    assert [(one.key, one.score) for one in rest if one.key == "hidden"] == [("hidden", None)]
    assert rest[-1].key == "hidden"


def test_only_the_configured_fields_are_searched(brain: Brain) -> None:
    store = CommonbrainStore(brain, fields=["note"])
    store.put(USER, "a", {"note": "green tea", "secret_place": "zanzibar"})
    store.put(USER, "b", {"list": [{"t": "blue"}, {"t": "grey"}]}, index=["list[*].t"])
    texts = sorted(brain.get(memory.id).body or "" for memory in brain.list().memories)
    assert texts == ["blue\ngrey", "green tea"]
    assert brain.recall("zanzibar").items == ()


def test_reading_a_value_restarts_its_time_to_live(
    store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "a", {"n": 1}, ttl=10)
    for _ in range(3):
        clock.move(timedelta(minutes=8))
        assert store.get(USER, "a") is not None
        clock.move(timedelta(minutes=8))
        assert keys(store.search(USER)) == ["a"]
    clock.move(timedelta(minutes=8))
    assert store.get(USER, "a", refresh_ttl=False) is not None
    assert keys(store.search(USER, refresh_ttl=False)) == ["a"]
    clock.move(timedelta(minutes=2))
    assert store.get(USER, "a") is None
    assert store.search(USER) == []
    assert store.list_namespaces() == []


def test_frequent_reads_update_the_expiry_at_most_once_per_interval(
    brain: Brain, store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "a", {"n": 1}, ttl=60)
    [memory] = brain.list().memories

    def changes() -> int:
        return len(brain.get(memory.id, views=["history"]).history or ())

    before = changes()
    for _ in range(5):
        clock.move(timedelta(minutes=1))
        store.get(USER, "a")
    assert changes() == before
    clock.move(timedelta(minutes=1))
    store.get(USER, "a")
    assert changes() == before + 1


def test_batch_with_a_refused_value_deletes_nothing(store: CommonbrainStore) -> None:
    text, _ = SECRETS["github classic"]
    store.put(USER, "old", {"n": 1})
    with pytest.raises(RejectedError):
        store.batch([PutOp(USER, "old", None), PutOp(USER, "new", {"a": text})])
    assert store.get(USER, "old") is not None


def test_new_value_replaces_the_time_to_live_of_the_old_one(
    store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "a", {"n": 1}, ttl=10)
    store.put(USER, "a", {"n": 2})
    clock.move(timedelta(minutes=11))
    assert store.get(USER, "a") is not None
    store.put(USER, "a", {"n": 3}, ttl=10)
    clock.move(timedelta(minutes=11))
    assert store.get(USER, "a") is None


def test_default_time_to_live_can_be_configured(brain: Brain, clock: FakeClock) -> None:
    store = CommonbrainStore(brain, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(USER, "a", {"n": 1})
    store.put(USER, "b", {"n": 2}, ttl=None)
    clock.move(timedelta(minutes=8))
    assert sorted(keys(store.search(USER))) == ["a", "b"]
    clock.move(timedelta(minutes=2))
    assert keys(store.search(USER)) == ["b"]


def test_namespaces_are_listed_by_pattern_depth_and_page(store: CommonbrainStore) -> None:
    namespaces = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f")]
    for namespace in [*namespaces, ("b", "a", "f")]:
        store.put(namespace, "k", {"n": 1})
    assert store.list_namespaces(prefix=("a", "b")) == namespaces[:3]
    assert store.list_namespaces(suffix=("f",)) == [("a", "c", "f"), ("b", "a", "f")]
    assert store.list_namespaces(prefix=("a",), suffix=("*", "f")) == [("a", "c", "f")]
    assert store.list_namespaces(prefix=("*", "b"), max_depth=3) == [
        ("a", "b", "c"),
        ("a", "b", "d"),
    ]
    assert store.list_namespaces(limit=2, offset=1) == namespaces[1:3]
    assert store.list_namespaces(prefix=("a", "b", "c", "d")) == []
    conditions = tuple(MatchCondition("prefix", one) for one in (("a",), ("a", "b")))
    [listed] = store.batch([ListNamespacesOp(match_conditions=conditions)])
    assert listed == namespaces[:3]


def test_batch_returns_a_separate_value_for_each_get(store: CommonbrainStore) -> None:
    store.batch([PutOp(USER, f"k{n}", {"n": [n]}) for n in range(30)])
    got = store.batch([GetOp(USER, f"k{n % 30}") for n in range(31)])
    values = [one.value if isinstance(one, Item) else None for one in got]
    assert values == [{"n": [n % 30]} for n in range(31)]
    assert values[0] is not values[30]


def test_batch_returns_stored_values_and_applies_the_last_write_of_each_key(
    store: CommonbrainStore,
) -> None:
    store.put(USER, "a", {"n": 1})
    got, none, results, also_none, none_again = store.batch(
        [
            GetOp(USER, "a"),
            PutOp(USER, "a", {"n": 2}),
            SearchOp(USER),
            PutOp(USER, "b", {"n": 3}),
            PutOp(USER, "b", None),
        ]
    )
    assert (none, also_none, none_again) == (None, None, None)
    assert getattr(got, "value", None) == {"n": 1}
    assert isinstance(results, list)
    assert len(results) == 1
    assert keys(store.search(USER)) == ["a"]


async def test_asynchronous_calls_do_not_block_the_loop(store: CommonbrainStore) -> None:
    loop, beats = asyncio.get_running_loop(), 0

    def beat() -> None:
        nonlocal beats
        beats += 1
        following[0] = loop.call_soon(beat)

    following = [loop.call_soon(beat)]
    await asyncio.gather(*(store.aput(USER, f"k{n}", {"n": n}) for n in range(5)))
    items = await store.asearch(USER, query="k3")
    following[0].cancel()
    assert beats > 100
    assert sorted(keys(items)) == [f"k{n}" for n in range(5)]
    await store.adelete(USER, "k1")
    assert await store.aget(USER, "k1") is None
    assert await store.alist_namespaces() == [USER]


def test_value_with_a_secret_is_refused_and_the_old_value_stays(store: CommonbrainStore) -> None:
    text, secret = SECRETS["github classic"]
    store.put(USER, "a", {"n": 1})
    for key in ("a", "b"):
        with pytest.raises(RejectedError, match="secret") as refusal:
            store.put(USER, key, {"note": {"deep": text}})
        assert secret not in str(refusal.value)
    assert [(one.key, one.value) for one in store.search(USER)] == [("a", {"n": 1})]


def test_secret_in_a_namespace_or_key_is_refused_although_values_are_redacted(path: Path) -> None:
    _, secret = SECRETS["github classic"]
    with a_brain(path, parameters=Parameters(secrets=OnSecret.REDACT)) as brain:
        store = CommonbrainStore(brain)
        for namespace, key in (((secret,), "k"), (USER, secret)):
            with pytest.raises(RejectedError) as refused:
                store.put(namespace, key, {"a": 1})
            assert refused.value.code == "secret_detected"
            assert secret not in str(refused.value)
        store.put(USER, "k", {"password": "Tr0ub4dor&3xyzzy9"})
        item = store.get(USER, "k")
    assert item is not None
    assert item.value == {"password": "[redacted: password]"}


def test_oversized_value_is_refused(store: CommonbrainStore) -> None:
    with pytest.raises(RejectedError, match="262,144"):
        store.put(USER, "a", {"text": "x" * 300_000})


def test_less_trusted_writer_cannot_replace_or_delete_a_value(
    brain: Brain, store: CommonbrainStore
) -> None:
    store.put(USER, "a", {"n": 1})
    web = CommonbrainStore(brain.acting_as(agent="crawler", trust_ceiling=Trust.UNTRUSTED_WEB))
    with pytest.raises(RejectedError, match="authority"):
        web.put(USER, "a", {"n": 2})
    with pytest.raises(RejectedError, match="cannot be deleted"):
        web.delete(USER, "a")
    assert store.search(USER)[0].value == {"n": 1}


def test_stores_are_isolated_by_project_and_shared_between_agents(brain: Brain) -> None:
    shop = CommonbrainStore(brain.acting_as(project="shop"))
    api = CommonbrainStore(brain.acting_as(project="api"))
    shop.put(USER, "a", {"n": 1})
    assert api.get(USER, "a") is None
    assert api.search(USER, query="ada") == []
    api.put(USER, "a", {"n": 2})
    same = CommonbrainStore(brain.acting_as(project="shop", agent="bo"))
    assert [one.value for one in same.search(USER)] == [{"n": 1}]


def test_get_returns_the_corrected_value(brain: Brain, store: CommonbrainStore) -> None:
    store.put(USER, "food", {"kind": None, "facts": [{"text": "Ada likes pizza", "sure": True}]})
    [memory] = brain.recall("pizza").items
    brain.revise.supersede(memory.id, "Ada likes pasta", reason="she said so")
    item = store.get(USER, "food")
    assert item is not None
    assert item.value == {"kind": None, "facts": [{"text": "Ada likes pasta", "sure": True}]}
    # The agent replaces its own words, and what a person corrected only with a person's consent.
    with pytest.raises(RejectedError, match="authority"):
        store.put(USER, "food", {"text": "Ada likes rice"})


def test_memory_of_a_model_does_not_replace_the_correction_of_a_person_at_its_place(
    brain: Brain, store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "pays", {"text": "Ada pays by invoice"})
    store.put(USER, "food", {"text": "Ada likes pizza"})
    [memory] = brain.recall("invoice").items
    brain.revise.supersede(memory.id, "Ada pays by card only", reason="she said so")
    corrected = brain.get(brain.get(memory.id).current_id)
    clock.move(timedelta(minutes=1))
    attached = dict(corrected.attachment or {}) | {"value": {"text": "Ada pays nothing"}}
    for tags in (corrected.tags, corrected.tags[:-1]):
        brain.as_model().remember(
            f"Ada pays nothing, {len(tags)}", kind="message", tags=tags, attachment=attached
        )
    item = store.get(USER, "pays")
    assert item is not None
    assert item.value == {"text": "Ada pays by card only"}
    assert keys(store.search(("users",))) == ["pays", "food"]
    assert store.search(("users",))[0].value == item.value
    results = store.search(USER, query="Ada pays nothing")
    assert [one.value for one in results if one.key == "pays"] == [item.value]


def test_newer_of_two_memories_of_equal_authority_at_one_place_counts(
    brain: Brain, store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "food", {"text": "Ada likes pizza"})
    first = brain.get(brain.list().memories[0].id)
    clock.move(timedelta(minutes=1))
    attached = dict(first.attachment or {}) | {"value": {"text": "Ada likes rice"}}
    brain.as_model().remember(
        "Ada likes rice", kind="message", tags=first.tags, attachment=attached
    )
    item = store.get(USER, "food")
    assert item is not None
    assert item.value == {"text": "Ada likes rice"}
    assert [one.value for one in store.search(USER)] == [item.value]


def test_attachment_without_the_form_of_a_value_is_no_value(
    brain: Brain, store: CommonbrainStore, clock: FakeClock
) -> None:
    store.put(USER, "food", {"text": "Ada likes pizza"})
    first = brain.get(brain.list().memories[0].id)
    clock.move(timedelta(minutes=1))
    whole = dict(first.attachment or {})
    forms: list[dict[str, Any]] = [{"store": "langgraph"}]
    forms += [{name: one for name, one in whole.items() if name != left} for left in whole]
    forms += [whole | {name: wrong} for name in whole for wrong in (1, [["x"]], {"x": 1}, "x")]
    for number, form in enumerate(forms):
        brain.as_model().remember(
            f"Ada, {number}", kind="message", tags=first.tags, attachment=form
        )
    for item in [store.get(USER, "food"), *store.search(("users",), limit=100)]:
        assert item is not None
        assert item.key in {"food", "x"}
        assert isinstance(item.value, dict)


@pytest.mark.parametrize("text", ["alpha beta gamma. " * 3000, ""], ids=["long", "empty"])
def test_correction_of_a_part_of_a_long_text_or_of_an_empty_text_leaves_the_value(
    brain: Brain, store: CommonbrainStore, text: str
) -> None:
    store.put(USER, "k", {"text": text})
    [memory] = brain.list().memories
    brain.revise.supersede(memory.id, "something else", reason="a slip")
    item = store.get(USER, "k")
    assert item is not None
    assert item.value == {"text": text}


def test_correction_applies_to_a_text_under_a_numeric_key(
    brain: Brain, store: CommonbrainStore
) -> None:
    names: dict[Any, Any] = {1: {2: "tea is green"}}
    store.put(USER, "k", {"a": names})
    [memory] = brain.list().memories
    brain.revise.supersede(memory.id, "tea is black", reason="a slip")
    item = store.get(USER, "k")
    assert item is not None
    assert item.value["a"]["1"] == {"2": "tea is black"}


def test_values_persist_after_the_store_is_reopened(path: Path) -> None:
    with a_brain(path) as brain:
        CommonbrainStore(brain).put(USER, "a", {"n": 1})
    with a_brain(path) as brain:
        assert CommonbrainStore(brain).search(USER)[0].value == {"n": 1}


def test_other_memories_are_not_items_of_the_store(brain: Brain, store: CommonbrainStore) -> None:
    store.put(USER, "a", {"text": "green tea"})
    brain.remember("Green tea is hot", tags=["langgraph", "langgraph:users/ada"])
    brain.remember("Green tea", tags=["langgraph:users/ada"], attachment={"store": "other"})
    assert keys(store.search(USER)) == ["a"]
    assert keys(store.search(USER, query="green tea")) == ["a"]


class State(TypedDict):
    user: str
    question: str
    answer: str


@pytest.mark.requirement("CL-05")
async def test_graph_recalls_in_one_thread_what_another_thread_stored(
    store: CommonbrainStore,
) -> None:
    pytest.importorskip("langgraph.graph", reason="only the store of langgraph is installed")
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415
    from langgraph.config import get_store  # noqa: PLC0415
    from langgraph.graph import (  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]
        END,
        START,
        StateGraph,
    )

    async def answer(state: State) -> dict[str, str]:
        own = get_store()
        known = await own.asearch(("users", state["user"]), query=state["question"], limit=1)
        await own.aput(("users", state["user"]), state["question"], {"text": state["question"]})
        return {"answer": known[0].value["text"] if known else "I do not know."}

    graph: Any = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    agent = graph.compile(checkpointer=InMemorySaver(), store=store)

    async def ask(thread: str, user: str, question: str) -> str:
        done = await agent.ainvoke(
            {"user": user, "question": question, "answer": ""},
            {"configurable": {"thread_id": thread}},
        )
        return done["answer"]

    assert await ask("1", "ada", "I like green tea") == "I do not know."
    assert await ask("2", "ada", "Which tea do I like?") == "I like green tea"
    assert await ask("3", "bo", "Which tea do I like?") == "I do not know."
