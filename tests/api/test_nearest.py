"""Nearest memories that are probably no answer, as each transport shows them."""

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from commonbrain.api.operations.recall import RECALL, CompactRecallResult
from commonbrain.cli.terminal import print_reply
from commonbrain.model.recall_result import HEADING, UNSURE, RecallResult, ResultStatus
from commonbrain.testing.builders import WordHashEmbedder, a_brain
from tests.asking import stored


class MeasuredEmbedder(WordHashEmbedder):
    space = replace(WordHashEmbedder.space, answer_threshold=0.46)


@pytest.fixture
def nearest(path: Path) -> Iterator[RecallResult]:
    with a_brain(path, embedder=MeasuredEmbedder()) as brain:
        stored(brain, "The ferry leaves from pier 4 at dawn", kind="fact")
        yield brain.recall("Which ferry module did the linter complain of after the rename?")


def test_agent_reads_that_the_nearest_items_are_probably_no_answer(nearest: RecallResult) -> None:
    assert RECALL.to_compact is not None
    shown = RECALL.to_compact(nearest)
    assert isinstance(shown, CompactRecallResult)

    assert RECALL.render_text(nearest).splitlines()[:2] == [HEADING, UNSURE]
    assert (shown.verdict, len(shown.items)) == (ResultStatus.BELOW_THRESHOLD, 1)


def test_person_reads_the_notice_above_the_nearest_items(
    nearest: RecallResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_reply(RECALL, nearest, console=Console())

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == UNSURE
    assert any("pier 4" in line for line in lines)


def test_lines_for_a_file_are_neither_cut_nor_wrapped(nearest: RecallResult) -> None:
    written = StringIO()
    long = replace(nearest, items=(replace(nearest.items[0], body="long " * 40),))

    print_reply(RECALL, long, console=Console(file=written, width=40))

    assert "long " * 39 in written.getvalue()
