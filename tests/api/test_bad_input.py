"""Whatever is typed in, at the library and the command: a clear answer, nothing half done."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import limits
from commonbrain.model.errors import CommonbrainError
from commonbrain.testing.builders import a_brain
from tests.conftest import Command

TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "two megabytes": "word " * 400_000,
    "binary": "\x00\x01\xff\udcff" * 40,
    "control characters": "clear \x1b[2J\x1b]0;title\x07 all \x9b31m red",
    "emoji": "🧠👩‍🔬🏳️‍🌈 is the brain of the house",
    "right to left": "النسخة الاحتياطية تعمل كل ليلة \u202eevil\u202c",
    "like SQL": "'; DROP TABLE memories; --",
    "like a search": 'NEAR("a" OR b*) AND {x} : ^y -z',
    "like HTML": "<script>alert('x')</script><b>bold</b>",
    "like markup": "[red]not red[/red] :smile: {{template}} %s %d $HOME",
    "a path": "../../etc/passwd",
    "an id of nothing": "mem_0000000000000",
    "no id": "mem_!!!!!!!!!!!!!",
}


@pytest.mark.requirement("ST-09")
def test_library_accepts_or_rejects_any_text_and_its_store_stays_sound(
    path: Path, subtests: pytest.Subtests
) -> None:
    with a_brain(path) as brain:
        kettle = brain.remember("The kettle is on the stove", kind="fact").items[0].id
        assert kettle is not None
        for number, (name, text) in enumerate(TEXTS.items()):
            with subtests.test(text=name):
                for outcome in outcomes_of(brain, text, target=f"Bread is in box {number}"):
                    assert isinstance(outcome, str | CommonbrainError)
                    assert len(str(outcome)) < 2000, "an error does not repeat all that was given"
                assert brain.get(kettle).body == "The kettle is on the stove"
                assert brain.recall("kettle", kinds=["fact"]).items[0].id == kettle
                assert brain.doctor().is_sound


def outcomes_of(brain: Brain, text: str, *, target: str) -> list[object]:
    """Give a text wherever one is taken; each call returns, or raises a documented error."""
    id_ = brain.remember(target, kind="fact", distinct_because="another box").items[0].id
    assert id_ is not None
    calls = (
        lambda: brain.remember(text),
        lambda: brain.remember("Tea is hot", kind=text),
        lambda: brain.remember("Milk is cold", project=text, label=text, tags=[text]),
        lambda: brain.recall(text[: limits.QUERY_CHARS_MAX + 1]),
        lambda: brain.recall("tea", project=text, tags=[text]),
        lambda: brain.get(text),
        lambda: brain.forget(text, reason="it is wrong"),
        lambda: brain.forget(project=text, reason=text),
        lambda: brain.revise.supersede(id_, text, reason="news"),
        lambda: brain.revise.ack(id_, text, reason=text),
        lambda: brain.session.note(text, "a value"),
        lambda: brain.session.note("a key", text),
        lambda: brain.session.checkpoint(text),
        lambda: brain.session.claim(text),
        lambda: brain.revise.supersede(id_, "Bread is gone", reason=text),
        lambda: brain.revise.annotate(id_, text),
        lambda: brain.revise.retag(id_, add=[text]),
        lambda: brain.revise.restore(text, reason="again"),
        lambda: brain.undo(agent=text, reason="runaway"),
    )
    return [answer(call) for call in calls]


def answer(call: Callable[[], object]) -> object:
    try:
        return type(call()).__name__
    except CommonbrainError as error:
        return error


def test_command_prints_no_control_character_and_no_traceback(
    command: Command, subtests: pytest.Subtests
) -> None:
    for names in (("control characters", "right to left"), ("like markup", "like SQL")):
        text = " ".join(TEXTS[name] for name in names)
        for words in (
            ("remember", text),
            ("recall", text),
            ("get", text),
            ("forget", text, "--reason", text),
        ):
            with subtests.test(text=names, command=words[0]):
                code, output = command(*words)
                assert code in {0, 2, 3, 4}, output
                assert "Traceback" not in output
                assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(output)
