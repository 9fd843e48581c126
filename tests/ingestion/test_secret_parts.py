"""What is marked private is removed at every entry, before anything is stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.hooks.actions import ACTIONS, HookRequest
from commonbrain.hooks.table import HOOKS
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.text.normalisation import normalise
from commonbrain.text.private_parts import without_private
from tests.asking import stored
from tests.claude_sessions import write_session
from tests.hooking import SESSION, make_event

FOLDER: Final = FolderConfig(project="kitchen", capture="auto")
HIDDEN: Final = "quokkamorphic"
MARKED: Final = (
    f"The kettle <PRIVATE>{HIDDEN} <private>and</private> {HIDDEN}</Private> boils at noon"
)
OPEN: Final = f"The kettle boils at noon <private>\n\n{HIDDEN} is next\n\n{HIDDEN}"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a <private>b</private>c", "a c"),
        ("a <Private>b</PRIVATE> c", "a  c"),
        ("a <private>b<private>c</private>d</private>e", "a e"),
        ("a <private>b", "a "),
        ("a <private>b<private>c</private>d", "a "),
        ("a </private> b", "a  b"),
        ("a <private reason='mine'>b</ private > c", "a  c"),
        ("a < b and <privateer> c", "a < b and <privateer> c"),
    ],
)
def test_private_parts_are_removed_nested_unclosed_and_in_capitals(text: str, clean: str) -> None:
    assert without_private(text) == clean


def _hook(brain: Brain, event: str, **fields: str) -> None:
    brain.acting_as(session=SESSION).session.meet()
    hook = HOOKS["claude-code", event]
    request = HookRequest(
        hook=hook,
        event=make_event(**fields),
        folder=FOLDER,
        agent="claude-code",
        remaining_s=lambda: 60.0,
        tokens=500,
    )
    ACTIONS[hook.action](brain.acting_as(session=SESSION), request)


PLAIN: Final = "Tea is ready at five"


def _remember(made: Callable[[str], Draft]) -> Callable[[Brain, str, Path], object]:
    """Remember a draft that has the marked text in one field."""

    def act(brain: Brain, text: str, _: Path) -> object:
        return brain.remember([made(text)])

    return act


def _import_notes(brain: Brain, text: str, folder: Path) -> object:
    page = folder / "page.md"
    page.write_text(f"# Notes\n\n{text}\n", "utf-8")
    return brain.import_("markdown", page)


def _import_chat(brain: Brain, text: str, folder: Path) -> object:
    return brain.import_("claude-code", write_session(folder / "chat.jsonl", text, text))


def _import_long_turn(brain: Brain, text: str, folder: Path) -> object:
    """Import a turn that has to be cut, within the private part."""
    words = f"{HIDDEN} and more of it\n" * 4000
    return _import_chat(brain, text.replace(HIDDEN, words), folder)


def _in_session(brain: Brain) -> Brain:
    return brain.acting_as(session=SESSION)


def _answer(brain: Brain, text: str) -> object:
    sent = brain.acting_as(agent="ann").message.send("bo", "Is the tea ready?")
    return brain.acting_as(agent="bo").message.ack(sent.id, text)


ENTRIES: Final[dict[str, Callable[[Brain, str, Path], object]]] = {
    "remember": lambda brain, text, _: brain.remember(text),
    "remember in chunks": lambda brain, text, _: brain.remember(
        f"The pot is blue and stands on the shelf.\n\n{text}", chunks=True
    ),
    "headline": _remember(lambda text: Draft(body=PLAIN, headline=text)),
    "label": _remember(lambda text: Draft(body=PLAIN, label=text)),
    "tags": _remember(lambda text: Draft(body=PLAIN, tags=(text,))),
    "people": _remember(lambda text: Draft(body=PLAIN, people=(text,))),
    "source": _remember(lambda text: Draft(body=PLAIN, source_ref=text)),
    "reason to store": _remember(lambda text: Draft(body=PLAIN, distinct_because=text)),
    "attachment": _remember(lambda text: Draft(body=PLAIN, attachment={"a": [{"b": text}]})),
    "column": _remember(
        lambda text: Draft(body=PLAIN, kind="incident", columns={"root_cause": text})
    ),
    "thread": _remember(
        lambda text: Draft(body=PLAIN, kind="message", thread=ThreadRef(key="tea", subject=text))
    ),
    "query": lambda brain, text, _: brain.recall(text),
    "message": lambda brain, text, _: brain.message.send("bo", text),
    "answer": lambda brain, text, _: _answer(brain, text),
    "task": lambda brain, text, _: brain.remember(text, kind="task"),
    "task of a session": lambda brain, text, _: _in_session(brain).session.task(text),
    "boot": lambda brain, text, _: _in_session(brain).boot(task=text),
    "note": lambda brain, text, _: _in_session(brain).session.note("tea", text),
    "checkpoint": lambda brain, text, _: _in_session(brain).session.checkpoint(text),
    "handoff": lambda brain, text, _: _in_session(brain).session.handoff(text, next_steps=[text]),
    "annotation": lambda brain, text, _: brain.revise.annotate(
        stored(brain, "Tea is ready", kind="fact"), text
    ),
    "newer text": lambda brain, text, _: brain.revise.supersede(
        stored(brain, "Tea is ready", kind="fact"), text, reason=text
    ),
    "tag": lambda brain, text, _: brain.revise.retag(
        stored(brain, "Tea is ready", kind="fact"), add=[text]
    ),
    "reason to forget": lambda brain, text, _: brain.forget(
        stored(brain, "Tea is ready", kind="fact"), reason=text
    ),
    "notes imported": _import_notes,
    "chat imported": _import_chat,
    "long turn imported": _import_long_turn,
    "prompt hook": lambda brain, text, _: _hook(brain, "user-prompt-submit", prompt=text),
    "reply hook": lambda brain, text, _: _hook(
        brain, "stop", reply=f"The root cause was found. We decided: {text}"
    ),
    "compaction hook": lambda brain, text, _: _hook(brain, "post-compact", summary=text),
}


@pytest.mark.of_a_file
def test_placeholder_in_angle_brackets_is_no_private_part() -> None:
    for text in [
        "Connect with ssh ubuntu@<private-ip> and restart nginx.",
        "Set KEY=<private key> in .env, then run make.",
        "vector<private::Foo> bar is used, and <private/> too.",
    ]:
        assert normalise(text) == text


@pytest.mark.parametrize("text", [MARKED, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_private_part_is_stored_by_no_entry(
    brain: Brain, path: Path, tmp_path: Path, entry: str, text: str
) -> None:
    ENTRIES[entry](brain, text, tmp_path)
    brain.services.journal.flush()
    brain.close()

    content = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    assert HIDDEN.encode() not in content
    assert entry == "checkpoint" or b"kettle" in content


def test_text_that_is_all_private_is_not_stored_and_the_reply_says_why(brain: Brain) -> None:
    [outcome] = brain.remember(f"<private>{HIDDEN}</private>").items

    assert outcome.code == "own_evidence"
    assert "private parts" in (outcome.reason or "")
