"""A fact was learnt, turned out to be wrong, and was corrected by another agent."""

from datetime import timedelta

from commonbrain.client import Brain
from commonbrain.model.memory import State
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

WRONG = "The API listens on port 8080"
RIGHT = "The API listens on port 9000"


def test_corrected_fact_is_recalled_by_all_agents_and_can_be_restored(
    brain: Brain, clock: FakeClock
) -> None:
    claude, codex = (brain.acting_as(agent=name) for name in ("claude-code", "codex"))
    outdated = stored(claude, WRONG, kind="fact", tags=["api"], source_ref="src/main.py:12")
    clock.move(timedelta(days=7))
    monday = clock.now()
    clock.move(timedelta(days=1))

    right = codex.revise.supersede(outdated, RIGHT, reason="moved behind the proxy").id or ""

    # Whoever asks now is told what holds now, by whichever words, and nothing else.
    for question in ("Which port does the API listen on?", "8080", "api", ""):
        assert bodies(claude, question) in ([RIGHT], []), question
    assert bodies(claude, "Which port does the API listen on?") == [RIGHT]
    # The correction keeps what was not said anew, and knows that it is one.
    new = claude.get(right)
    assert (new.tags, new.source_ref, new.superseded_count) == (("api",), "src/main.py:12", 1)
    # The past is not lost: it reads as what was believed then.
    assert bodies(claude, "Which port does the API listen on?", as_of=monday) == [WRONG]
    old = claude.get(outdated)
    assert (old.state, old.current_id) == (State.SUPERSEDED, right)

    # The correction was a mistake: taking it back leaves one of them, and keeping both leaves both.
    claude.revise.restore(outdated, reason="the proxy is gone")
    assert bodies(codex, "Which port does the API listen on?") == [WRONG]
    assert brain.doctor().is_sound
