"""`python -m benchmarks transcripts`: import a year of sessions, mostly tool output."""

from __future__ import annotations

import json
import random
import re
import resource
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import typer

import commonbrain
from benchmarks.corpus import drafts
from benchmarks.machine import describe_machine
from commonbrain.client import Brain
from commonbrain.transfer.importers import IMPORTERS

transcripts = typer.Typer()
_BEGUN: Final = datetime(2025, 11, 1, tzinfo=UTC)
_SPAN: Final = timedelta(days=365)
_TURNS: Final = 6
"""Prompts of a session, each followed by calls of tools and remarks."""
_REMARKS: Final = 5
"""Texts of the assistant on each prompt, between its calls."""
_CALLS: Final = 25
"""Calls of tools on each prompt."""


@transcripts.command("transcripts")
def measure_transcripts(
    *, sessions: int = 400, megabytes: int = 500, longest_mb: int = 50, store: bool = True
) -> None:
    """Measure the processor time of reading sessions and importing them."""
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "projects"
        # In a process of its own, so that the most memory this one held is that of the reading.
        written = {"sessions": sessions, "megabytes": megabytes, "longest_mb": longest_mb}
        writer = get_context("spawn").Process(target=write_sessions, args=(source,), kwargs=written)
        writer.start()
        writer.join()
        size = sum(one.stat().st_size for one in source.rglob("*.jsonl")) / 1e6
        before, began = _resident_mb(), time.process_time()
        contents = Counter(
            type(one.content).__name__ for one in IMPORTERS["claude-code"].read(source)
        )
        took = time.process_time() - began
        print(f"{sessions} sessions, {size:,.0f} MB: {contents['Draft']:,} messages")
        print(
            f"read in {took:.1f} s, {size / took:,.0f} MB/s; {_resident_mb() - before:.0f} MB more"
        )
        if store:
            _measure_import(source, Path(folder) / "brain.db", size)


def _measure_import(source: Path, store: Path, size: float) -> None:
    with commonbrain.open(store) as brain:
        brain.remember("Never push to main without a review", kind="rule", severity="BLOCKER")
        boot = _boot(brain)
        before, began, wall = _resident_mb(), time.process_time(), time.perf_counter()
        report = brain.import_("claude-code", source)
        took, waited = time.process_time() - began, time.perf_counter() - wall
        each = took / max(report.stored, 1) * 1000
        more = _resident_mb() - before
        print(
            f"imported in {took:.1f} s ({waited:.0f} s by the clock), {report.stored:,} stored, "
            f"{each:.2f} ms each; {more:.0f} MB more; {size / took:,.1f} MB/s"
        )
        began = time.process_time()
        again = brain.import_("claude-code", source)
        print(f"again in {time.process_time() - began:.1f} s, {again.stored} stored")
        change = "unchanged" if _boot(brain) == boot else "changed"
        unread = brain.preview_boot().unread
    print(f"store {store.stat().st_size / 1e6:.0f} MB; boot {change}, {unread} unread messages")


def _boot(brain: Brain) -> str:
    """Return what a boot in a project of the sessions shows, without the id of the session."""
    return re.sub(r"ses_\w+", "", brain.preview_boot("project-3").text)


def _resident_mb() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def write_sessions(
    folder: Path, *, sessions: int, megabytes: float, longest_mb: float = 0, seed: int = 1
) -> None:
    """Write sessions of this size in all, the first with one result of the longest size."""
    random_source = random.Random(seed)
    texts = (draft.body for draft in drafts(sessions * _TURNS * (1 + _REMARKS), seed=seed))
    result_bytes_max = int(megabytes * 1e6 / (sessions * _TURNS * _CALLS))
    for number in range(sessions):
        id_ = str(uuid.UUID(int=random_source.getrandbits(128), version=4))
        project = f"project-{number % 20}"
        file = folder / f"-home-ada-code-{project}" / f"{id_}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        begun = _BEGUN + _SPAN * number / sessions
        shared = {"isSidechain": False, "userType": "external", "version": "2.1.330"}
        shared |= {"cwd": f"/home/ada/code/{project}", "sessionId": id_, "gitBranch": "main"}
        with file.open("w", encoding="utf-8") as out:
            records = _records(
                texts, result_bytes_max=result_bytes_max, random_source=random_source
            )
            for place, record in enumerate(records):
                if number == 0 and place == 1 and longest_mb:
                    record = _result("x" * int(longest_mb * 5e5))  # noqa: PLW2901 another one
                written = {
                    **shared,
                    **record,
                    "uuid": str(uuid.UUID(int=random_source.getrandbits(128), version=4)),
                    "timestamp": (begun + timedelta(seconds=20 * place)).isoformat(),
                }
                out.write(json.dumps(written, separators=(",", ":")) + "\n")
            title = {"type": "ai-title", "aiTitle": f"Session {number}", "sessionId": id_}
            out.write(json.dumps(title, separators=(",", ":")) + "\n")


def _records(
    texts: Iterator[str], *, result_bytes_max: int, random_source: random.Random
) -> Iterator[Mapping[str, object]]:
    for _ in range(_TURNS):
        yield {"type": "user", "message": {"role": "user", "content": next(texts)}}
        remarks = list(islice(texts, _REMARKS))
        for call in range(_CALLS):
            if call % (_CALLS // _REMARKS) == 0:
                yield _text({"type": "text", "text": remarks[call * _REMARKS // _CALLS]})
            use = {"name": "Bash", "input": {"command": "just test"}}
            yield _text({"type": "tool_use", "id": f"toolu_{call}", **use})
            yield _result('{"line": "ok"}\n' * random_source.randint(0, result_bytes_max // 24))


def _text(block: Mapping[str, object]) -> Mapping[str, object]:
    message = {"role": "assistant", "model": "claude-opus-5-5", "content": [block]}
    return {"type": "assistant", "message": message}


def _result(text: str) -> Mapping[str, object]:
    """Return a result, which the program writes twice: for the model and for itself."""
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "toolUseResult": {"stdout": text, "stderr": ""}}
