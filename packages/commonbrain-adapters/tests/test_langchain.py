import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.recall_result import HEADING
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock, a_brain
from tests.secrets import SECRETS

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from commonbrain_adapters.langchain import CommonbrainChatHistory
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

MESSAGES: tuple[BaseMessage, ...] = (
    SystemMessage("Be brief.", id="s1"),
    HumanMessage("  When is the release?\r\n", name="ada"),
    AIMessage(
        "",
        tool_calls=[{"name": "calendar", "args": {"of": "release", "n": [1, 2.5]}, "id": "c1"}],
        usage_metadata={"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        response_metadata={"model": "m", "logprobs": None},
    ),
    ToolMessage("[decision: Friday]", tool_call_id="c1", status="success"),
    ToolMessage(f"{HEADING}\n[1] mem_38G0GR8GK1GSC | rule", tool_call_id="c2"),
    HumanMessage([{"type": "text", "text": "And this?"}, {"type": "image", "url": "http://x/y"}]),
    AIMessage("On Friday. é e\u0301 \x00 東京", additional_kwargs={"reasoning": {"why": ["a"]}}),
    ChatMessage(content="Noted.", role="observer"),
    HumanMessage("ok"),
    HumanMessage("ok"),
    HumanMessage("x" * 100_000),
)


@pytest.fixture
def history(brain: Brain) -> CommonbrainChatHistory:
    return CommonbrainChatHistory(brain, "monday")


def test_messages_are_returned_exactly_and_in_order(history: CommonbrainChatHistory) -> None:
    history.add_messages(MESSAGES[:4])
    for one in MESSAGES[4:]:
        history.add_message(one)
    assert history.messages == list(MESSAGES)


def test_new_session_is_empty(history: CommonbrainChatHistory) -> None:
    assert history.messages == []
    history.add_messages([])
    history.clear()
    assert history.messages == []


def test_order_is_preserved_across_pages_when_the_clock_goes_back(
    history: CommonbrainChatHistory, clock: FakeClock
) -> None:
    for number in range(5):
        history.add_messages([HumanMessage(f"{number}-{one}") for one in range(101)])
        clock.move(timedelta(minutes=-1))
    expected = [f"{number}-{one}" for number in range(5) for one in range(101)]
    assert [message.content for message in history.messages] == expected


def test_clear_forgets_the_messages_of_one_session_only(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    other = CommonbrainChatHistory(brain, "tuesday")
    history.add_messages([HumanMessage(f"Hello {number}") for number in range(120)])
    other.add_messages([HumanMessage("Hello 1")])
    history.clear()
    assert history.messages == []
    assert [message.content for message in other.messages] == ["Hello 1"]
    history.add_user_message("Hello again")
    assert [message.content for message in history.messages] == ["Hello again"]


@pytest.mark.parametrize("session", ["a/b", "a b", " a", "ä#", "x" * 600, "", "MONDAY"])
def test_sessions_are_isolated_by_name(
    brain: Brain, history: CommonbrainChatHistory, session: str
) -> None:
    history.add_user_message("Hello")
    named = CommonbrainChatHistory(brain, session)
    named.add_user_message("Good day")
    assert [message.content for message in named.messages] == ["Good day"]
    assert [message.content for message in history.messages] == ["Hello"]


def test_sessions_are_isolated_by_project(brain: Brain) -> None:
    shop = CommonbrainChatHistory(brain.acting_as(project="shop"), "monday")
    api = CommonbrainChatHistory(brain.acting_as(project="api"), "monday")
    shop.add_user_message("Hello")
    assert api.messages == []


def test_messages_are_stored_as_one_thread_and_recalled(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    history.add_user_message("The release is on Friday")
    history.add_ai_message(AIMessage("Noted.", response_metadata={"model": "zanzibar"}))
    [item] = brain.recall("release", max_items=1).items
    assert (item.kind, item.body) == ("message", "The release is on Friday")
    assert brain.recall("zanzibar").items == ()
    [thread] = brain.message.threads().threads
    messages = brain.message.history(thread=thread.id).messages
    assert [(message.sender, message.body) for message in messages] == [
        ("user", "The release is on Friday"),
        ("assistant", "Noted."),
    ]
    assert brain.acting_as(agent="bo").message.inbox().messages == ()


def test_call_with_a_secret_in_one_message_stores_none_of_its_messages(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    text, secret = SECRETS["github classic"]
    history.add_user_message("Hello")
    hidden = AIMessage("Done", additional_kwargs={"token": text})
    with pytest.raises(RejectedError, match="secret") as refusal:
        history.add_messages([HumanMessage("Log in"), hidden, HumanMessage("Thanks")])
    assert secret not in str(refusal.value)
    assert [message.content for message in history.messages] == ["Hello"]
    assert brain.recall("thanks").items == ()


def test_oversized_message_is_refused(history: CommonbrainChatHistory) -> None:
    with pytest.raises(RejectedError, match="262,144"):
        history.add_user_message("x" * 300_000)


def test_attachment_without_the_form_of_a_message_is_no_message(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    history.add_messages([HumanMessage("Hello")])
    first = brain.get(brain.list().memories[0].id)
    whole = dict(first.attachment or {})
    forms: list[dict[str, Any]] = [{"store": whole["store"], "path": whole["path"]}]
    forms += [whole | {"value": "Hello"}, whole | {"path": 1}, whole | {"store": "other"}]
    for number, form in enumerate(forms):
        brain.as_model().remember(f"Hi {number}", kind="message", tags=first.tags, attachment=form)
    assert [one.text for one in history.messages] == ["Hello"]


def test_corrected_message_stays_at_its_position(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    history.add_messages([HumanMessage("Release on Friday", id="1"), AIMessage("Noted.", id="2")])
    [item] = brain.recall("release", max_items=1).items
    first = brain.revise.supersede(item.id, "Release on Monday", reason="moved").id or ""
    brain.revise.supersede(first, "Release on Tuesday", reason="moved again")
    history.add_user_message("Thanks")
    assert [message.content for message in history.messages] == [
        "Release on Tuesday",
        "Noted.",
        "Thanks",
    ]
    assert [message.id for message in history.messages[:2]] == ["1", "2"]


def test_less_trusted_agent_cannot_clear_a_session(
    brain: Brain, history: CommonbrainChatHistory
) -> None:
    history.add_messages([HumanMessage("Hello"), HumanMessage("Good day")])
    web = brain.acting_as(agent="crawler", trust_ceiling=Trust.UNTRUSTED_WEB)
    with pytest.raises(RejectedError, match="cannot be deleted"):
        CommonbrainChatHistory(web, "monday").clear()
    assert len(history.messages) == 2


def test_session_persists_after_the_store_is_reopened(path: Path) -> None:
    with a_brain(path) as brain:
        CommonbrainChatHistory(brain, "monday").add_user_message("Hello")
    with a_brain(path) as brain:
        messages = CommonbrainChatHistory(brain, "monday").messages
    assert [message.content for message in messages] == ["Hello"]


async def test_asynchronous_calls_add_read_and_clear_messages(
    history: CommonbrainChatHistory,
) -> None:
    await history.aadd_messages([HumanMessage("a"), AIMessage("b")])
    await asyncio.gather(*(history.aadd_messages([HumanMessage(name)]) for name in "cd"))
    assert sorted(str(one.content) for one in await history.aget_messages()) == list("abcd")
    await history.aclear()
    assert await history.aget_messages() == []


@pytest.mark.requirement("CL-05")
@pytest.mark.filterwarnings("ignore:.*RunnableWithMessageHistory.*")
def test_agent_continues_its_conversation(brain: Brain) -> None:
    requests: list[list[BaseMessage]] = []

    class Model(GenericFakeChatModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> Any:  # noqa: ANN401
            requests.append(messages)
            return super()._generate(messages, *args, **more)

    replies = iter([AIMessage("Hello Ada", id="1"), AIMessage("You are Ada", id="2")])

    def history_of(session_id: str) -> CommonbrainChatHistory:
        return CommonbrainChatHistory(brain, session_id)

    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{q}")])
    agent: Any = RunnableWithMessageHistory(
        prompt | Model(messages=replies),
        history_of,
        input_messages_key="q",
        history_messages_key="history",
    )
    for question in ("I am Ada", "Who am I?"):
        agent.invoke({"q": question}, {"configurable": {"session_id": "monday"}})
    assert [request.content for request in requests[1]] == ["I am Ada", "Hello Ada", "Who am I?"]
    stored = CommonbrainChatHistory(brain, "monday").messages
    assert [one.content for one in stored] == ["I am Ada", "Hello Ada", "Who am I?", "You are Ada"]
