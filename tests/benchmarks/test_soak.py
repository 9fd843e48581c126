"""The soak's judgement: which growth and which replies make it fail."""

import json
import random
from pathlib import Path

import pytest

from benchmarks.load.monitor import Growth
from benchmarks.load.soak import Answers, judge

HOUR_S = range(900, 3600, 5)
"""The samples of an hour after its warm-up."""


def test_memory_growth_beyond_its_limit_fails_and_noise_does_not(
    subtests: pytest.Subtests,
) -> None:
    for grows_mb, is_met in [(0, True), (10, True), (40, False)]:
        with subtests.test(grows_mb=grows_mb, is_met=is_met):
            random_source = random.Random(1)  # noqa: S311 to be foreseen
            held = [600 + grows_mb * at / 3600 + random_source.gauss(0, 5) for at in HOUR_S]

            check = judge("server", Growth.of([float(at) for at in HOUR_S], held), "resident MB")

            assert check.is_met is is_met


def test_one_high_sample_does_not_count_as_growth() -> None:
    held = [600.0] * len(HOUR_S)
    held[-1] = 2000.0

    assert judge("server", Growth.of([float(at) for at in HOUR_S], held), "resident MB").is_met


def test_only_retryable_503_and_429_replies_do_not_count_as_failures(tmp_path: Path) -> None:
    answers = Answers(ledger=tmp_path / "ledger.jsonl")
    lines = [
        _line(200, ids=["mem_1"]),
        _line(503, is_retryable=True),
        _line(429, is_retryable=True),
        _line(503),
        _line(500, is_retryable=True),
        _line(0),
    ]
    written = "\n".join(lines)
    answers.ledger.write_text(written)
    answers.read()
    # The load generator was still writing the last one.
    answers.ledger.write_text(f"{written}\n")
    answers.read()

    assert answers.total == len(lines)
    assert answers.retryable == 2
    assert answers.failures == {"remember 503 ": 1, "remember 500 ": 1, "remember 0 ": 1}
    assert [(write.id, write.agent, write.note_number) for write in answers.writes] == [
        ("mem_1", 3, 7)
    ]


def _line(status: int, *, is_retryable: bool = False, ids: list[str] | None = None) -> str:
    known = {"call": "remember", "agent": 3, "said": 7, "code": "", "ms": 20}
    return json.dumps(known | {"status": status, "is_retryable": is_retryable, "ids": ids or []})
