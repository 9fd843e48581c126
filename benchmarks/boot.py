"""Boot of a full store and of a typical project: its tokens, by Commonbrain and by a real BPE."""

from __future__ import annotations

import importlib
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

import commonbrain
from benchmarks.corpus import drafts
from benchmarks.large_stores import Lending
from benchmarks.timing import timing
from commonbrain.client import Brain
from commonbrain.coordination.briefing import Briefing, sections
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.service import Remember
from commonbrain.model.kinds import TaskDetail, TaskPriority
from commonbrain.model.limits import BOOT_CAPS
from commonbrain.model.memory import Draft
from commonbrain.text.tokens import estimate, upper_bound

if TYPE_CHECKING:
    from commonbrain.model.kinds import Detail

app = typer.Typer()

PROJECT: Final = "ledger"
TASK: Final = "Move the ledger's postings to the new queue, see src/ledger/post.py and LED-42"
RULES, TASKS, SESSIONS, MESSAGES = 2000, 5000, 50, 1000
_BATCH: Final = 64
_WORDS: Final = 14
_TIMES: Final = 60

Count = Callable[[str], int]


@app.command()
def boot(times: int = _TIMES) -> None:
    """Measure a warm boot with 2,000 rules, 5,000 tasks, 50 sessions and 1,000 unread messages."""
    count = _bpe()
    with tempfile.TemporaryDirectory() as folder:
        with commonbrain.open(Path(folder) / "full.db", agent="ann", project=PROJECT) as brain:
            _fill(brain)
            own = brain.acting_as(session="measured")
            own.boot(task=TASK)
            first, second = own.boot(task=TASK), own.boot(task="Something else altogether")
            print_sizes("full store", first, count)
            print("  same beginning:", _stable(first) == _stable(second))
            print(timing([lambda: own.boot(task=TASK)] * times).line("boot, warm, with a task"))
            print(timing([own.boot] * times).line("boot, warm, without a task"))
        with commonbrain.open(Path(folder) / "small.db", agent="ann", project=PROJECT) as brain:
            _settle(brain)
            print_sizes(
                "typical project", brain.acting_as(session="measured").boot(task=TASK), count
            )


def _stable(briefing: Briefing) -> list[str]:
    names = {"notice", "blockers", "skills", "notes"}
    return [line for name, lines in sections(briefing) if name in names for line in lines]


def print_sizes(name: str, briefing: Briefing, count: Count | None) -> None:
    """Say how long a briefing is in each form, and what it shows."""
    forms = {
        "text": briefing.text,
        "JSON": briefing.to_json(),
        "JSON with nulls": json.dumps(asdict(briefing), ensure_ascii=False),
    }
    print(name)
    for form, written in forms.items():
        true = f"{count(written):5}" if count else "  not obtainable"
        print(
            f"  {form:16} estimate {estimate(written):5}  upper bound {upper_bound(written):5}"
            f"  o200k_base {true}"
        )
    shown = {section: len(getattr(briefing, section)) for section in BOOT_CAPS}
    print(f"  shown {shown}, unread {briefing.unread}, degraded {list(briefing.degraded)}")
    print(f"  left out { {cut.section: cut.left_out for cut in briefing.truncated} }")


def _bpe() -> Count | None:
    """Return a real tokenizer where one is installed: uv run --with bpe-openai does."""
    try:
        encoding: Any = importlib.import_module("bpe_openai").get_encoding("o200k_base")
    except ImportError:
        return None
    return lambda text: len(encoding.encode_ordinary(text))


def _fill(brain: Brain) -> None:
    filling = Brain(
        replace(brain.services, embedder=Lending(brain.services.embedder)), brain.caller
    )
    started = time.perf_counter()
    texts = _texts()
    random_source = random.Random(4)
    made = [*_rules(texts), *_tasks(texts, random_source)]
    for at in range(0, len(made), _BATCH):
        Remember(filling.services, filling.caller).write(
            made[at : at + _BATCH], WriteOptions(checks_similarity=False)
        )
    for number in range(SESSIONS):
        filling.acting_as(agent=f"agent-{number}", session=f"other-{number}").boot(
            PROJECT, next(texts)
        )
    for number in range(MESSAGES):
        sender = filling.acting_as(agent=f"agent-{number % SESSIONS}", session=None)
        urgent = "urgent" if number % 50 == 0 else "info"
        sender.message.send("ann", f"{next(texts)} {number}", priority=urgent)
    print(f"filled in {time.perf_counter() - started:.0f} s")


def _rules(texts: Iterator[str]) -> Iterator[Draft]:
    for number in range(RULES):
        severity = "BLOCKER" if number % 20 == 0 else "PATTERN"
        yield Draft(body=f"Never {next(texts)}.", kind="rule", severity=severity, project=PROJECT)


def _tasks(texts: Iterator[str], random_source: random.Random) -> Iterator[Draft]:
    for _ in range(TASKS):
        detail: Detail = TaskDetail(priority=random_source.choice(list(TaskPriority)))
        yield Draft(body=f"Do {next(texts)}.", kind="task", detail=detail, project=PROJECT)


def _texts() -> Iterator[str]:
    for draft in drafts(20_000, seed=7):
        yield " ".join(draft.body.lower().split()[:_WORDS])


def _settle(brain: Brain) -> None:
    """Make a project as one has it after a week: a few of everything."""
    for text in (
        "Never push to main without a review.",
        "Never post to a closed period.",
        "Never log account numbers.",
    ):
        brain.remember(text, kind="rule", severity="BLOCKER")
    for text in (
        "Prefer small commits that say why.",
        "Name queues after what they carry, in the plural.",
        "Write a migration's way back with it.",
        "Prefer integers of cents to decimals.",
    ):
        brain.remember(text, kind="rule")
    for text in (
        "Mend the nightly balance: it skips the thirty-first.",
        "Measure the new queue at a million postings.",
        "Write down how periods are closed.",
        "Ask the auditors about retention.",
    ):
        brain.remember(text, kind="task")
    before = brain.acting_as(session="yesterday")
    before.session.handoff(
        "The queue is in place and posts in order; the old table still takes corrections.",
        next_steps=["Move corrections to the queue.", "Delete the old table's trigger."],
        blockers=["The auditors have not answered about retention."],
    )
    bob = brain.acting_as(agent="bob", session="bob-1")
    bob.boot(PROJECT, "Reviewing the migration of the queue")
    bob.message.send("ann", "The migration looks right; please run it on a copy first.")
