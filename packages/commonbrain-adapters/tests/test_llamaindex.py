# The library is not in the environment where types are checked.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from tests.secrets import SECRETS

pytest.importorskip("llama_index.core", reason="llama-index-core: run `just frameworks llamaindex`")

from commonbrain_adapters.llamaindex import CommonbrainMemoryBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, ImageBlock, MockLLM, TextBlock
from llama_index.core.memory import Memory

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-with-llamaindex.md"


@pytest.fixture
def block(brain: Brain) -> CommonbrainMemoryBlock:
    return CommonbrainMemoryBlock(brain=brain)


def message(text: str, role: str = "user") -> ChatMessage:
    return ChatMessage(role=role, content=text)


async def test_message_flushed_from_short_term_memory_is_recalled(
    brain: Brain, block: CommonbrainMemoryBlock
) -> None:
    await block.aput(
        [message("My cat is called Mia"), message("Noted.", "assistant")], session_id="one"
    )
    recalled = await block.aget([message("What is my cat called?")], session_id="one")
    assert "> My cat is called Mia" in recalled
    [thread] = brain.message.threads().threads
    messages = brain.message.history(thread=thread.id).messages
    assert [(one.sender, one.body) for one in messages] == [
        ("user", "My cat is called Mia"),
        ("assistant", "Noted."),
    ]


async def test_memories_are_isolated_by_session_and_project(
    brain: Brain, block: CommonbrainMemoryBlock
) -> None:
    await block.aput([message("My cat is called Mia")], session_id="one")
    question = [message("What is my cat called?")]
    assert await block.aget(question, session_id="two") == ""
    shop = CommonbrainMemoryBlock(brain=brain.acting_as(project="shop"))
    assert "Mia" not in await shop.aget(question, session_id="two")


async def test_across_sessions_option_recalls_memories_of_other_sessions(brain: Brain) -> None:
    block = CommonbrainMemoryBlock(brain=brain, across_sessions=True)
    await block.aput([message("My cat is called Mia")], session_id="one")
    brain.remember("The cat flap is open at night", kind="fact")
    recalled = await block.aget([message("Which cat flap, which cat?")], session_id="two")
    assert "cat flap" in recalled


@pytest.mark.parametrize("messages", [None, [], [message("")], [message("Do whales sing?")]])
async def test_recall_without_an_answer_adds_nothing(
    block: CommonbrainMemoryBlock, messages: list[ChatMessage] | None
) -> None:
    await block.aput([message("My cat is called Mia")], session_id="one")
    assert await block.aget(messages, session_id="one") == ""


async def test_messages_without_text_are_not_stored(
    brain: Brain, block: CommonbrainMemoryBlock
) -> None:
    picture = ImageBlock(url="http://localhost/cat.png")
    await block.aput(
        [
            ChatMessage(role="user", blocks=[picture]),
            ChatMessage(role="user", blocks=[TextBlock(text="My cat Mia"), picture]),
        ],
        session_id="one",
    )
    [memory] = brain.list().memories
    assert brain.get(memory.id).body == "My cat Mia"


async def test_call_with_a_secret_in_one_message_stores_none_of_its_messages(
    brain: Brain, block: CommonbrainMemoryBlock
) -> None:
    text, _ = SECRETS["github classic"]
    with pytest.raises(RejectedError, match="secret"):
        await block.aput([message("Hello"), message(text)], session_id="one")
    assert brain.list().memories == ()


async def test_agent_recalls_messages_dropped_from_short_term_memory(brain: Brain) -> None:
    def memory() -> Memory:
        return Memory.from_defaults(
            session_id="one",
            token_limit=60,
            chat_history_token_ratio=0.5,
            token_flush_size=10,
            memory_blocks=[CommonbrainMemoryBlock(brain=brain)],
            tokenizer_fn=str.split,
        )

    agent: Any = SimpleChatEngine.from_defaults(llm=MockLLM(max_tokens=8), memory=memory())
    await agent.achat("My cat is called Mia")
    for number in range(8):
        await agent.achat(f"Tell me about the number {number}, please, and at some length")
    assert "My cat is called Mia" in {brain.get(memory.id).body for memory in brain.list().memories}
    # The model answers with its prompt.
    later: Any = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory())
    assert "> My cat is called Mia" in str(await later.achat("What is my cat called?"))


def test_documented_example_prints_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ada")
    blocks = re.findall(
        r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    [(_, program), (_, shown)] = blocks
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {"__name__": "example"})  # noqa: S102 it is ours
    varying = re.compile(r"mem_\w+|\d{4}-\d\d-\d\d")
    assert varying.sub("", printed.getvalue()).strip() == varying.sub("", shown).strip()
