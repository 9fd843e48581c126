"""Whatever is typed in, at the library and the command: a clear answer, nothing half done."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import limits
from commonbrain.model.errors import CommonbrainError
from commonbrain.testing.builders import a_brain
from tests.processes import PATIENCE_S, clean_environment, command

TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "ten megabytes": "word " * 2_000_000,
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
@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_the_library_answers_or_refuses_and_stays_whole(path: Path, text: str) -> None:
    with a_brain(path) as brain:
        kept = brain.remember("The kettle is on the stove", kind="fact").items[0].id
        assert kept is not None
        for outcome in offered(brain, text):
            assert isinstance(outcome, str | CommonbrainError)
            assert len(str(outcome)) < 2000, "an error does not repeat all that was given"
        assert brain.get(kept).body == "The kettle is on the stove"
        assert brain.recall("kettle", kinds=["fact"]).items[0].id == kept
        assert brain.doctor().is_sound


def offered(brain: Brain, text: str) -> list[object]:
    """Give a text wherever one is taken; each call returns or raises an error of the house."""
    target = brain.remember("Bread is in the box", kind="fact").items[0].id
    assert target is not None
    calls = (
        lambda: brain.remember(text),
        lambda: brain.remember("Tea is hot", kind=text),
        lambda: brain.remember("Milk is cold", project=text, label=text, tags=[text]),
        lambda: brain.recall(text[: limits.QUERY_CHARS_MAX + 1]),
        lambda: brain.recall("tea", project=text, tags=[text]),
        lambda: brain.get(text),
        lambda: brain.forget(text, reason="it is wrong"),
        lambda: brain.forget(project=text, reason=text),
        lambda: brain.revise.supersede(target, text, reason="news"),
        lambda: brain.revise.ack(target, text, reason=text),
        lambda: brain.session.note(text, "a value"),
        lambda: brain.session.note("a key", text),
        lambda: brain.session.checkpoint(text),
        lambda: brain.session.claim(text),
        lambda: brain.revise.supersede(target, "Bread is gone", reason=text),
        lambda: brain.revise.annotate(target, text),
        lambda: brain.revise.retag(target, add=[text]),
        lambda: brain.revise.restore(text, reason="again"),
        lambda: brain.undo(agent=text, reason="runaway"),
    )
    return [answer(call) for call in calls]


def answer(call: Callable[[], object]) -> object:
    try:
        return type(call()).__name__
    except CommonbrainError as error:
        return error


@pytest.mark.parametrize(
    "names", [("control characters", "right to left"), ("like markup", "like SQL")]
)
def test_the_command_prints_no_control_character_and_no_traceback(
    path: Path, names: tuple[str, str]
) -> None:
    text = " ".join(TEXTS[name] for name in names)
    for arguments in (
        ("remember", text),
        ("recall", text),
        ("get", text),
        ("forget", text, "--reason", text),
    ):
        ran = subprocess.run(
            command(path, *arguments),
            env=clean_environment(),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = (ran.stdout + ran.stderr).decode()
        assert ran.returncode in {0, 2, 3, 4}, said
        assert "Traceback" not in said
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
