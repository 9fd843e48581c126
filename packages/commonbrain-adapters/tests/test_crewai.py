# CrewAI needs older libraries than this project: it is in an environment of its own, and not where
# types are checked. The server runs in the project's environment.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedBaseClass=false

import asyncio
import contextlib
import copy
import io
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest

pytest.importorskip("crewai", reason="crewai: run `just frameworks crewai`")
# Otherwise it sends what it does to its maker.
os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"

from commonbrain_adapters.crewai import CommonbrainStorage, RecordRefusedError
from commonbrain_client import ClientError, CommonbrainClient, models
from crewai import Agent, BaseLLM, Crew, Memory, Task
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.types import MemoryRecord

from tests.secrets import SECRETS

SERVER = os.environ.get("COMMONBRAIN_TEST_SERVER", "")
pytestmark = pytest.mark.skipif(not SERVER, reason="no server: run `just frameworks crewai`")
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-with-crewai.md"
Result = TypeVar("Result")
NOON = datetime(2026, 11, 26, 12, 0, 0)  # noqa: DTZ001 as CrewAI makes them
EXACT: dict[str, Any] = {"a": [1.5, 10**30, None, True, "", " x é \r\n", {}, []]}


@pytest.fixture
def project() -> str:
    """One of its own for each test; all use one server."""
    return f"crewai-{uuid4()}"


@pytest.fixture
def storage(project: str) -> Iterator[CommonbrainStorage]:
    made = CommonbrainStorage(SERVER, project=project)
    yield made
    made.close()


def record(content: str, scope: str = "/", **fields: object) -> MemoryRecord:
    return MemoryRecord(content=content, scope=scope, **fields)


def contents(records: list[MemoryRecord]) -> list[str]:
    return [one.content for one in records]


def results(storage: CommonbrainStorage, query: str, **filters: Any) -> list[str]:  # noqa: ANN401
    [vector] = storage.embed([query])
    return contents([one for one, _ in storage.search(vector, **filters)])


def called(call: Callable[[CommonbrainClient], Awaitable[Result]]) -> Result:
    """Return what a function does with a client."""

    async def connected() -> Result:
        async with CommonbrainClient(SERVER) as client:
            return await call(client)

    return asyncio.run(connected())


class ScriptedModel(BaseLLM):
    """Answers with what it was given in its prompt, and analyses as a model should."""

    def call(self, messages: str | list[dict[str, str]], *_: object, **__: object) -> str:
        texts = (
            [messages]
            if isinstance(messages, str)
            else [message["content"] for message in messages]
        )
        prompt = "\n".join(texts)
        if "You extract discrete" in prompt:
            return json.dumps({"memories": re.findall(r"The staging database is .*", prompt)})
        if "You analyze content to be stored" in prompt:
            return json.dumps(
                {
                    "suggested_scope": "/facts",
                    "categories": ["answers"],
                    "importance": 0.7,
                    "extracted_metadata": {"entities": ["staging"], "dates": [], "topics": []},
                }
            )
        if "You are comparing new content" in prompt:
            return json.dumps({"actions": [], "insert_new": True})
        known = "at midnight" if "at midnight" in prompt.partition("Memories from")[2] else "never"
        return f"Thought: I now know.\nFinal Answer: The staging database is reset {known}"

    def supports_function_calling(self) -> bool:
        return False


def test_storage_implements_the_storage_backend_of_crewai(storage: CommonbrainStorage) -> None:
    assert isinstance(storage, StorageBackend)


def test_record_is_returned_exactly(storage: CommonbrainStorage) -> None:
    given = record(
        " Staging is reset nightly\n\n[decision: keep it] #ops ",
        scope="/Company X/ops",
        categories=["On call", "ops"],
        metadata=EXACT,
        importance=0.9,
        created_at=NOON,
        source="ada",
        private=True,
    )
    storage.save([given])
    assert storage.get_record(given.id) == given
    assert storage.list_records() == [given]
    assert storage.get_record("another") is None


def test_long_record_is_returned_completely(storage: CommonbrainStorage) -> None:
    given = record("word " * 10_000)
    storage.save([given])
    assert storage.get_record(given.id) == given


def test_records_with_the_same_content_stay_separate(storage: CommonbrainStorage) -> None:
    given = [record("Staging is reset nightly") for _ in range(3)]
    storage.save(given[:2])
    storage.save(given[2:])
    assert storage.count() == 3
    storage.delete(record_ids=[given[0].id])
    assert {one.id for one in storage.list_records()} == {given[1].id, given[2].id}


def test_search_finds_the_matching_record_within_its_filters(storage: CommonbrainStorage) -> None:
    storage.save(
        [
            record("The staging database is reset every night", "/ops", categories=["database"]),
            record("The cat is called Mia", "/pets", metadata={"n": 1}),
            record("The dog is called Bo", "/pets", metadata={"n": 2}),
        ]
    )
    [vector] = storage.embed(["When is the staging database reset?"])
    [(first, score), *_] = storage.search(vector, limit=1)
    assert first.content == "The staging database is reset every night"
    assert 0 < score <= 1
    assert storage.search(vector, min_score=1.1) == []
    assert results(storage, "What is the cat called?", limit=1) == ["The cat is called Mia"]
    assert results(storage, "called", metadata_filter={"n": 2}) == ["The dog is called Bo"]
    assert results(storage, "called", scope_prefix="/ops") == []
    for categories in (["database"], ["database", "other"]):
        answers = results(storage, "the staging database", categories=categories)
        assert answers == ["The staging database is reset every night"]
    assert results(storage, "the staging database", categories=["other"]) == []


async def test_asynchronous_calls_do_not_block_the_loop(storage: CommonbrainStorage) -> None:
    one, other = record("The cat is called Mia", "/a"), record("The dog is called Bo", "/b")
    saves = asyncio.gather(storage.asave([one]), storage.asave([other]))
    # What the loop runs first has not waited for the server.
    await asyncio.wait([saves], timeout=0)
    assert not saves.done()
    await saves
    [vector] = storage.embed(["What is the cat called?"])
    [(answer, _)] = await storage.asearch(vector, limit=1)
    assert answer == one
    assert await storage.adelete(scope_prefix="/a") == 1
    assert await asyncio.to_thread(storage.list_records) == [other]


def test_vector_of_another_embedder_is_refused(storage: CommonbrainStorage) -> None:
    for vector in ([0.1] * 1536, [0.5] * 10, []):
        with pytest.raises(ValueError, match=r"embedder=storage\.embed"):
            storage.search(vector)


def test_crewai_deduplicates_equal_texts_but_not_similar_ones(
    storage: CommonbrainStorage,
) -> None:
    memory = Memory(storage=storage, embedder=storage.embed, llm=ScriptedModel(model="scripted"))
    texts = [f"Shelf {number} of the store holds cups" for number in range(8)]
    memory.remember_many([*texts, texts[0]], scope="/", categories=[], importance=0.5)
    memory.drain_writes()
    assert sorted(contents(storage.list_records())) == texts


def test_updated_record_supersedes_the_old_one(storage: CommonbrainStorage, project: str) -> None:
    given = record("The cat is called Mia", "/pets", created_at=NOON)
    storage.save([given])
    changed = given.model_copy(
        update={"content": "The cat is called Leo", "scope": "/home/pets", "categories": ["cat"]}
    )
    storage.update(changed)
    storage.update(changed.model_copy(update={"importance": 0.9}))
    assert storage.list_records() == [changed.model_copy(update={"importance": 0.9})]
    assert storage.list_scopes() == ["/home"]
    assert results(storage, "What is the cat called?") == ["The cat is called Leo"]
    old = called(
        lambda client: client.list_(models.ListRequest(project=project, states=["superseded"]))
    )
    assert "The cat is called Mia" in [memory.headline for memory in old.memories]


def test_update_of_an_unknown_record_stores_it(storage: CommonbrainStorage) -> None:
    given = record("The cat is called Mia")
    storage.update(given)
    assert storage.list_records() == [given]


def test_correction_of_the_memory_changes_the_content_of_the_record(
    storage: CommonbrainStorage, project: str
) -> None:
    given = record("The cat is called Mia", "/pets")
    storage.save([given])

    async def correct(client: CommonbrainClient) -> None:
        [memory] = (await client.list_(models.ListRequest(project=project))).memories
        await client.revise(
            models.ReviseSupersedeRequest(id=memory.id, text="The cat is called Leo", reason="new")
        )

    called(correct)
    assert storage.list_records() == [given.model_copy(update={"content": "The cat is called Leo"})]


def test_records_are_listed_by_creation_time_newest_first(storage: CommonbrainStorage) -> None:
    given = [record(f"Number {n}", created_at=NOON - timedelta(days=n)) for n in range(5)]
    storage.save([given[3], given[0], given[4], given[1], given[2]])
    storage.update(given[3])
    assert storage.list_records() == given
    assert storage.list_records(limit=2, offset=1) == given[1:3]
    assert storage.list_records(limit=0) == storage.list_records(offset=9) == []


def test_many_records_are_counted_listed_and_deleted(storage: CommonbrainStorage) -> None:
    storage.save([record(f"Number {n}", f"/n/{n % 3}") for n in range(230)])
    assert storage.count() == storage.count("/n") == 230
    assert len(storage.list_records(limit=1000)) == 230
    assert storage.delete(scope_prefix="/n") == 230
    assert storage.count() == 0


def test_scopes_form_a_tree(storage: CommonbrainStorage) -> None:
    storage.save(
        [
            record("At the root", categories=["a"], created_at=NOON),
            record(
                "Below", "/company/ops", categories=["a", "b"], created_at=NOON - timedelta(days=1)
            ),
            record("Deeper", "/company/ops/db", created_at=NOON - timedelta(days=2)),
            record("A namesake", "/company/ops2"),
        ]
    )
    assert storage.list_scopes() == ["/company"]
    assert storage.list_scopes("/company/") == ["/company/ops", "/company/ops2"]
    assert storage.list_categories() == {"a": 2, "b": 1}
    assert storage.list_categories("/company/ops/db") == {}
    info = storage.get_scope_info("/company/ops")
    assert (info.path, info.record_count, info.categories, info.child_scopes) == (
        "/company/ops",
        2,
        ["a", "b"],
        ["/company/ops/db"],
    )
    assert (info.oldest_record, info.newest_record) == (
        NOON - timedelta(days=2),
        NOON - timedelta(days=1),
    )
    assert storage.get_scope_info("/none").record_count == 0


def test_records_are_deleted_by_id_scope_age_category_and_metadata(
    storage: CommonbrainStorage,
) -> None:
    old = record("Old", "/a", categories=["x"], created_at=NOON - timedelta(days=9))
    new = record("New", "/a", categories=["x"], metadata={"n": 1}, created_at=NOON)
    far = record("Far", "/b", categories=["y"], metadata={"n": 1}, created_at=NOON)
    storage.save([old, new, far])
    assert storage.delete(scope_prefix="/b", record_ids=[old.id, new.id]) == 0
    assert storage.delete(older_than=(NOON - timedelta(days=1)).replace(tzinfo=UTC)) == 1
    assert storage.delete(categories=["y"], metadata_filter={"n": 2}) == 0
    assert storage.delete(metadata_filter={"n": 1}, categories=["y", "z"]) == 1
    assert storage.list_records() == [new]
    storage.reset("/b")
    assert storage.count() == 1
    storage.reset()
    assert storage.count() == 0


def test_records_are_isolated_by_project(storage: CommonbrainStorage, project: str) -> None:
    storage.save([record("The cat is called Mia")])
    for name in (f"{project}-2", None):
        other = CommonbrainStorage(SERVER, project=name)
        assert other.list_records() == []
        assert results(other, "What is the cat called?") == []
        other.close()


def test_record_with_a_secret_is_refused_and_the_others_are_stored(
    storage: CommonbrainStorage,
) -> None:
    text, secret = SECRETS["github classic"]
    bad, good = record(text), record("The cat is called Mia")
    with pytest.raises(RecordRefusedError, match="secret") as refused:
        storage.save([bad, good])
    assert secret not in str(refused.value)
    assert refused.value.record_id == bad.id
    assert storage.list_records() == [good]
    with pytest.raises(RecordRefusedError, match="secret"):
        storage.update(good.model_copy(update={"metadata": {"note": text}}))
    assert storage.list_records() == [good]


def test_closed_storage_raises_an_error(project: str) -> None:
    storage = CommonbrainStorage(SERVER, project=project)
    storage.close()
    storage.close()
    with pytest.raises(ClientError, match="closed"):
        storage.count()


def test_deep_copy_of_a_storage_is_the_storage_itself(storage: CommonbrainStorage) -> None:
    memory = Memory(storage=storage, embedder=storage.embed, llm=ScriptedModel(model="scripted"))
    assert copy.deepcopy(storage) is storage
    assert copy.deepcopy({"embedder": memory.embedder})["embedder"](["a"]) == storage.embed(["a"])


def test_crew_recalls_memories_of_an_earlier_crew(project: str) -> None:
    def crew(storage: CommonbrainStorage) -> Crew:
        model = ScriptedModel(model="scripted")
        agent = Agent(
            role="Operator", goal="Answer", backstory="Knows the servers", llm=model, verbose=False
        )
        task = Task(
            description="When is the staging database reset?",
            expected_output="One sentence",
            agent=agent,
        )
        memory = Memory(storage=storage, embedder=storage.embed, llm=model)
        return Crew(agents=[agent], tasks=[task], memory=memory, verbose=False)

    first = CommonbrainStorage(SERVER, project=project)
    assert "reset never" in str(crew(first).kickoff())
    assert contents(first.list_records()) == ["The staging database is reset never"]
    [remembered] = first.list_records()
    assert (remembered.scope, remembered.categories) == ("/facts", ["answers"])
    first.update(
        remembered.model_copy(update={"content": "The staging database is reset at midnight"})
    )
    first.close()

    later = CommonbrainStorage(SERVER, project=project)
    assert "reset at midnight" in str(crew(later).kickoff())
    later.close()


def test_documented_example_prints_the_documented_output(project: str) -> None:
    blocks = re.findall(
        r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    [(_, program), (_, shown)] = blocks
    printed = io.StringIO()
    program = program.replace("http://127.0.0.1:8377", SERVER).replace('"shop"', f'"{project}"')
    with contextlib.redirect_stdout(printed):
        exec(program, {"__name__": "example"})  # noqa: S102 it is ours
    assert printed.getvalue().strip() == shown.strip()
