"""Read sources by the thousand that are changed in their structure; none ends this process.

Each is read in a child, which reads thousands and is started again after the one that ended it.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from traceback import extract_tb
from typing import Final

from commonbrain.child_process import ChildFailedError, run_in_child
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import SENT_CHILD_BYTES_MAX, ChildLimits
from commonbrain.testing.builders import a_brain
from commonbrain.transfer.child_importer import format_piece, parse_piece
from commonbrain.transfer.importers import InstalledImporters
from tests.mutations import SOURCES, write_source

_LIMITS: Final = ChildLimits(memory_bytes_max=SENT_CHILD_BYTES_MAX, silence_s_max=120.0)
_PIECES_MAX: Final = 5_000
"""Of one source: a mutation may repeat what it has a thousand times."""
_ROUND: Final = 2_000
"""Sources that a child reads."""


def outcomes(kind: str, start: int, *, end: int) -> Iterator[bytes]:
    """Read the sources of these numbers; yield `read`, `refused`, or the fault of an importer."""
    importers = InstalledImporters()
    with TemporaryDirectory() as folder, TemporaryDirectory() as stores:
        store = Path(stores) / f"{start}.db"
        for number in range(start, end):
            for old in Path(folder).iterdir():
                old.unlink()
            format_, path = write_source(kind, number, Path(folder))
            try:
                if kind == "export":
                    with a_brain(store) as brain:
                        brain.merge(path)
                else:
                    for piece in islice(importers[format_].read(path), _PIECES_MAX):
                        parse_piece(format_piece(piece), number=1)
                yield b"read"
            except CommonbrainError:
                yield b"refused"
            except Exception as error:  # noqa: BLE001 the faults that are searched for
                at = extract_tb(error.__traceback__)[-1]
                place = f"{format_}: {type(error).__name__}, {Path(at.filename).name}:{at.lineno}"
                yield place.encode()


def explore_kind(kind: str, count: int, *, until: float, start: int = 0) -> Mapping[str, int]:
    """Read so many sources of a kind until a time; return the outcomes and how often each was.

    An outcome that is a fault names the first number that has it.
    """
    counted: Counter[str] = Counter()
    first: dict[str, int] = {}
    number, end = start, start + count
    while number < end and time.time() < until:
        arguments = {"kind": kind, "start": number, "end": min(number + _ROUND, end)}
        try:
            with run_in_child("tests.explore_sources:outcomes", arguments, limits=_LIMITS) as lines:
                for line in lines:
                    first.setdefault(line.decode(), number)
                    counted[line.decode()] += 1
                    number += 1
                    if time.time() > until:
                        break
        except ChildFailedError as error:
            first.setdefault(str(error), number)
            counted[str(error)] += 1
            number += 1
    return {
        one if one in {"read", "refused"} else f"{one} (from {first[one]})": times
        for one, times in counted.most_common()
    }


def explore_sources(seconds: float, count: int) -> int:
    """Read so many sources of each kind within a time; print the outcomes, return 1 for a fault."""
    start = SystemRandom().getrandbits(40)
    until = time.time() + seconds
    is_clean = True
    with ThreadPoolExecutor(len(SOURCES)) as threads:
        jobs = {
            kind: threads.submit(explore_kind, kind, count, until=until, start=start)
            for kind in SOURCES
        }
        for kind, job in jobs.items():
            counted = job.result()
            is_clean = is_clean and set(counted) <= {"read", "refused"}
            sys.stdout.write(f"explore: {sum(counted.values()):,} sources of {kind}\n")
            sys.stdout.writelines(f"  {times:,} {one}\n" for one, times in counted.items())
            sys.stdout.flush()
    return 0 if is_clean else 1
