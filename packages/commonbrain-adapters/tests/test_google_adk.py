# The library is not in the environment where types are checked.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedBaseClass=false

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import a_brain
from tests.secrets import SECRETS

pytest.importorskip("google.adk", reason="google-adk: run `just frameworks google-adk`")

from commonbrain_adapters.google_adk import CommonbrainMemoryService
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai.types import Blob, Content, FunctionCall, Part

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-with-google-adk.md"
ADA: dict[str, Any] = {"app_name": "travel", "user_id": "ada"}
AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)


@pytest.fixture
def service(brain: Brain) -> CommonbrainMemoryService:
    return CommonbrainMemoryService(brain)


def utterance(text: str, *, id: str, author: str = "user", **more: Any) -> Event:  # noqa: A002, ANN401
    role = "user" if author == "user" else "model"
    content = Content(role=role, parts=[Part(text=text)])
    return Event(id=id, author=author, content=content, timestamp=AT.timestamp(), **more)


def session(*events: Event, id: str = "monday", **owner: str) -> Session:  # noqa: A002
    return Session(id=id, **{**ADA, **owner}, events=list(events))


async def texts(service: CommonbrainMemoryService, query: str, **owner: str) -> list[str]:
    response = await service.search_memory(**{**ADA, **owner}, query=query)
    return [part.text for memory in response.memories for part in memory.content.parts]


def bodies(brain: Brain) -> list[str | None]:
    listed = brain.list(order="recorded_oldest").memories
    return [brain.get(one.id, bump=False).body for one in listed]


async def test_search_finds_the_text_of_a_session(service: CommonbrainMemoryService) -> None:
    await service.add_session_to_memory(
        session(
            utterance("My cat is called Mia", id="1"), utterance("Noted.", id="2", author="guide")
        )
    )
    [memory] = (await service.search_memory(**ADA, query="What is the cat called?")).memories[:1]
    assert memory.content == Content(role="user", parts=[Part(text="My cat is called Mia")])
    assert memory.author == "user"
    assert datetime.fromisoformat(memory.timestamp) == AT
    assert memory.id.startswith("mem_")
    assert memory.custom_metadata == {}


async def test_events_of_a_session_are_stored_as_one_thread_in_order(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    events = [
        utterance(f"Stop {n}", id=str(n), author=("user", "guide")[n % 2]) for n in range(120)
    ]
    await service.add_session_to_memory(session(*events[:50]))
    await service.add_session_to_memory(session(*events))
    [thread] = brain.message.threads().threads
    assert thread.subject == "monday"
    listed = brain.list(order="recorded_oldest", limit=100)
    rest = brain.list(order="recorded_oldest", limit=100, cursor=listed.next)
    headlines = [one.headline for one in (*listed.memories, *rest.memories)]
    assert headlines == [f"Stop {n}" for n in range(120)]


async def test_session_added_again_stores_only_its_new_events(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    first, second = utterance("ok", id="1"), utterance("ok", id="2")
    await service.add_session_to_memory(session(first))
    await service.add_session_to_memory(session(first, second))
    await service.add_session_to_memory(session(first, second))
    await service.add_events_to_memory(**ADA, session_id="monday", events=[second, second])
    assert bodies(brain) == ["ok", "ok"]


async def test_session_added_several_times_concurrently_is_stored_once(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    same = session(*(utterance(f"Stop {n}", id=str(n)) for n in range(5)))
    other = CommonbrainMemoryService(brain)
    await asyncio.gather(*(one.add_session_to_memory(same) for one in [service, other] * 3))
    assert sorted(map(str, bodies(brain))) == [f"Stop {n}" for n in range(5)]


async def test_corrected_or_forgotten_event_is_not_stored_again(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    same = session(
        utterance("The cat is called Mia", id="1", author="guide"),
        utterance("The cat is old", id="2"),
    )
    await service.add_session_to_memory(same)
    mia, old = brain.list(order="recorded_oldest").memories
    brain.revise.supersede(mia.id, "The cat is called Mina", reason="a slip")
    await service.delete_memory(**ADA, memory_id=old.id)
    await service.add_session_to_memory(same)
    assert await texts(service, "cat called") == ["The cat is called Mina"]
    assert bodies(brain) == ["The cat is called Mina"]


@pytest.mark.parametrize(
    "other",
    [
        {"user_id": "bo"},
        {"user_id": "Ada"},
        {"user_id": "ad"},
        {"app_name": "Travel"},
        {"app_name": "travel/ada", "user_id": ""},
        {"app_name": "", "user_id": "travel/ada"},
        {"user_id": "x" * 600},
    ],
)
async def test_memories_are_isolated_by_user_and_app(
    service: CommonbrainMemoryService, other: dict[str, str]
) -> None:
    await service.add_session_to_memory(session(utterance("The cat is called Mia", id="1")))
    await service.add_session_to_memory(
        session(utterance("The cat is called Tom", id="1"), **other)
    )
    assert await texts(service, "cat") == ["The cat is called Mia"]
    assert await texts(service, "cat", **other) == ["The cat is called Tom"]
    [theirs] = (await service.search_memory(**{**ADA, **other}, query="cat")).memories
    await service.delete_memory(**ADA, memory_id=theirs.id)
    assert await texts(service, "cat", **other) == ["The cat is called Tom"]


async def test_memories_are_isolated_by_project_and_private_scope(brain: Brain) -> None:
    shop = CommonbrainMemoryService(brain.acting_as(project="shop"))
    await shop.add_session_to_memory(session(utterance("The cat is called Mia", id="1")))
    assert await texts(CommonbrainMemoryService(brain), "cat") == []
    private = CommonbrainMemoryService(brain, scope="private")
    await private.add_session_to_memory(session(utterance("The dog is called Rex", id="1")))
    assert await texts(private, "dog") == ["The dog is called Rex"]
    assert await texts(CommonbrainMemoryService(brain.acting_as(agent="other")), "dog") == []


async def test_only_text_parts_of_a_session_are_stored(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    picture = Part(inline_data=Blob(data=b"x" * 300_000, mime_type="image/png"))
    call = Part(function_call=FunctionCall(name="weather", args={"city": "Lisbon"}))
    parts = [Part(text="hidden", thought=True), Part(text="This is"), picture, Part(text="Mia")]
    await service.add_session_to_memory(
        session(
            Event(id="1", author="guide", content=Content(role="model", parts=[call])),
            Event(id="2", author="user", content=Content(role="user", parts=[picture])),
            Event(id="3", author="user"),
            Event(id="4", author="user", content=Content(role="user", parts=parts)),
        )
    )
    assert bodies(brain) == ["This is\nMia"]
    assert await texts(service, "Mia") == ["This is\nMia"]


async def test_memory_entry_is_returned_exactly(service: CommonbrainMemoryService) -> None:
    picture = Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))
    entry = MemoryEntry(
        content=Content(parts=[Part(text=" The cat is called Mia "), picture]),
        author="guide",
        timestamp="2026-11-01T10:00:00",
        custom_metadata={"certain": True, "by": ["ada", 1.5, None]},
    )
    await service.add_memory(**ADA, memories=[entry], custom_metadata={"ttl": "6000s"})
    [memory] = (await service.search_memory(**ADA, query="cat")).memories
    expected = entry.model_copy(
        update={"id": memory.id, "custom_metadata": {"ttl": "6000s", **entry.custom_metadata}}
    )
    assert memory == expected


async def test_entry_with_an_id_is_stored_once(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    entry = MemoryEntry(id="1", content=Content(parts=[Part(text="The cat is called Mia")]))
    other = MemoryEntry(content=Content(parts=[Part(text="The cat is old")]), timestamp="soon")
    await service.add_memory(**ADA, memories=[entry, other])
    await service.add_memory(**ADA, memories=[entry])
    assert bodies(brain) == ["The cat is called Mia", "The cat is old"]


async def test_event_with_a_secret_is_refused_and_the_rest_of_the_session_is_stored(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    text, secret = SECRETS["github classic"]
    events = [utterance("Hello", id="1"), utterance(text, id="2"), utterance("Thanks", id="3")]
    with pytest.raises(RejectedError, match="secret") as refusal:
        await service.add_session_to_memory(session(*events))
    assert secret not in str(refusal.value)
    assert bodies(brain) == ["Hello", "Thanks"]


async def test_search_without_an_answer_returns_nothing(service: CommonbrainMemoryService) -> None:
    assert await texts(service, "cat") == []
    await service.add_session_to_memory(session(utterance("My cat is called Mia", id="1")))
    assert await texts(service, " ") == []
    assert await texts(service, "Do whales sing?") == []
    assert await texts(service, "cat " * 20_000) == ["My cat is called Mia"]


async def test_search_returns_at_most_the_configured_number_of_items(brain: Brain) -> None:
    service = CommonbrainMemoryService(brain, max_items=3)
    cats = [utterance(f"Cat number {n} is called Mia{n}", id=str(n)) for n in range(6)]
    await service.add_session_to_memory(session(*cats))
    assert len(await texts(service, "What are the cats called?")) == 3


async def test_delete_requires_a_known_id_and_sufficient_trust(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    await service.add_session_to_memory(session(utterance("My cat is called Mia", id="1")))
    for unknown in (None, "", "1", "mem_38G0GR8GK1GSC"):
        await service.delete_memory(**ADA, memory_id=unknown)
    [fact] = brain.remember("The cat flap is open", kind="fact").items
    await service.delete_memory(**ADA, memory_id=fact.id)
    [memory] = (await service.search_memory(**ADA, query="cat called")).memories
    web = brain.acting_as(agent="crawler", trust_ceiling=Trust.UNTRUSTED_WEB)
    with pytest.raises(RejectedError, match="cannot be deleted"):
        await CommonbrainMemoryService(web).delete_memory(**ADA, memory_id=memory.id)
    assert len(bodies(brain)) == 2
    await service.delete_memory(**ADA, memory_id=memory.id)
    assert bodies(brain) == ["The cat flap is open"]


async def test_memories_persist_after_the_store_is_reopened(path: Path) -> None:
    with a_brain(path) as brain:
        await CommonbrainMemoryService(brain).add_session_to_memory(
            session(utterance("My cat is called Mia", id="1"))
        )
    with a_brain(path) as brain:
        assert await texts(CommonbrainMemoryService(brain), "cat") == ["My cat is called Mia"]


class Script(BaseLlm):
    """A model that gives the replies of a script, and keeps what it was asked."""

    model: str = "script"
    replies: list[Part]
    asked: list[LlmRequest] = Field(default_factory=list[LlmRequest])

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 ADK's interface
    ) -> AsyncIterator[LlmResponse]:
        del stream
        self.asked.append(llm_request)
        yield LlmResponse(content=Content(role="model", parts=[self.replies.pop(0)]))

    def texts(self, number: int) -> str:
        """Return what was said in a request, and what tools returned."""
        parts = [part for content in self.asked[number].contents for part in content.parts]
        instruction = str(self.asked[number].config.system_instruction)
        return "\n".join(
            [instruction, *(str(part.text or part.function_response) for part in parts)]
        )


async def save(callback_context: Any) -> None:  # noqa: ANN401 its name differs between versions
    await callback_context.add_session_to_memory()


async def say(agent: LlmAgent, text: str, *, service: Any, user: str = "ada") -> str:  # noqa: ANN401
    sessions = InMemorySessionService()
    runner = Runner(
        app_name="travel", agent=agent, session_service=sessions, memory_service=service
    )
    opened = await sessions.create_session(app_name="travel", user_id=user)
    replies: list[str] = []
    content = Content(role="user", parts=[Part(text=text)])
    async for event in runner.run_async(user_id=user, session_id=opened.id, new_message=content):
        replies += [part.text for part in event.content.parts if part.text]
    return replies[-1]


@pytest.mark.requirement("CL-05")
@pytest.mark.filterwarnings(r"ignore:\[EXPERIMENTAL\]:UserWarning")
async def test_agent_recalls_memories_in_another_session(
    brain: Brain, service: CommonbrainMemoryService
) -> None:
    load = Part(function_call=FunctionCall(name="load_memory", args={"query": "cat called"}))
    noted = [Part(text="Noted."), Part(text="Mia."), load, Part(text="Mia!"), Part(text="No idea.")]
    model = Script(replies=noted)
    preloading = LlmAgent(
        name="guide", model=model, tools=[preload_memory], after_agent_callback=save
    )
    await say(preloading, "My cat is called Mia", service=service)
    assert await say(preloading, "What is my cat called?", service=service) == "Mia."
    assert "My cat is called Mia" in model.texts(1)

    loading = LlmAgent(name="guide", model=model, tools=[load_memory])
    assert await say(loading, "And what is it called now?", service=service) == "Mia!"
    assert "My cat is called Mia" in model.texts(3)

    await say(preloading, "What is my cat called?", service=service, user="bo")
    assert "Mia" not in model.texts(4)
    senders = {
        brain.get(memory.id, bump=False).detail["sender"]
        for memory in brain.list(limit=100).memories
    }
    assert senders == {"user", "guide"}


def test_documented_example_prints_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ada")
    blocks = re.findall(
        r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    programs = [one for kind, one in blocks if kind == "python" and "asyncio.run" in one]
    [program], [shown] = programs, [one for kind, one in blocks if kind == "text"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {"__name__": "example"})  # noqa: S102 it is ours
    assert printed.getvalue().strip() == shown.strip()
