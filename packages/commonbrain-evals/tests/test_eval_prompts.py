"""The prompts of `brain eval prompts` are sound, and a few of them are judged as labelled."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

from commonbrain_evals.prompts import evaluate, read_prompts
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.hooks.actions import recall_for_prompt
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock, a_brain


def test_no_memory_is_in_both_halves_and_each_half_has_enough_prompts() -> None:
    stored, prompts = read_prompts()

    assert len({one.text for one in stored}) == len(stored) >= 120
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    halves: dict[int, set[CalibrationSplit]] = {}
    for prompt in prompts:
        if prompt.memory is not None:
            halves.setdefault(prompt.memory, set()).add(prompt.half)
    assert all(len(those) == 1 for those in halves.values())
    assert set(halves) == set(range(len(stored)))
    counts = Counter((prompt.half, prompt.memory is None) for prompt in prompts)
    assert all(
        counts[half, is_unrelated] >= 150
        for half in CalibrationSplit
        for is_unrelated in (True, False)
    )


def test_most_related_and_unrelated_prompts_are_judged_right() -> None:
    stored, prompts = read_prompts()
    some = [prompt for prompt in prompts if prompt.sort in {"words", "smalltalk", "machine"}][::3]

    report = evaluate(stored, some, embedder=make_embedder(load_settings()))

    related = [row.is_right for row in report.rows if row.memory is not None]
    assert sum(related) >= 0.9 * len(related)
    replies = [row.reply for row in report.rows if row.reply is not None]
    listed = [reply for reply in replies if reply.is_listed]
    assert sum(one.is_answered for one in listed) >= 0.98 * len(listed)
    assert sum(reply.tokens for reply in replies) < 0.6 * sum(
        reply.tokens_of_all for reply in replies
    )
    unrelated = [row.is_right for row in report.rows if row.memory is None]
    assert sum(unrelated) >= 0.95 * len(unrelated)
    assert {figure["half"] for figure in report.figures} == {"calibrate", "check"}


def test_prompts_are_shown_what_recall_puts_first_in_its_order(tmp_path: Path) -> None:
    stored, prompts = read_prompts()
    clock = FakeClock()
    embedder = make_embedder(load_settings())
    with a_brain(tmp_path / "brain.db", clock=clock, embedder=embedder) as brain:
        for one in stored:
            clock.move(timedelta(hours=7))
            brain.remember(one.text, kind=one.kind, chunks=False)
        compared = 0
        for number, prompt in enumerate(prompts[::5]):
            view = brain.acting_as(session=f"session {number}")
            # What was shown before counts at once, whenever it would have been written.
            brain.services.journal.flush()
            every = brain.recall(prompt.text, max_items=12, bump=False)
            recalled = [item.id for item in every.items]
            result = recall_for_prompt(view, prompt.text, max_tokens=600)
            shown = [item.id for item in result.items] if result else []
            if shown:
                assert shown[0] == recalled[0], prompt.text
                assert shown == [id_ for id_ in recalled if id_ in shown], prompt.text
                compared += 1
    assert compared >= 50
