"""A zip that ends, blocks or bloats its decompressor fails alone, and leaves nothing behind."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_BZIP2, ZipFile

import pytest

from commonbrain.client import Brain
from commonbrain.model.limits import ChildLimits, ImportLimits
from commonbrain.testing.builders import a_brain
from tests.transfer.hostile_format import hostile_source, install_hostile_format
from tests.working import a_worker

DECOMPRESSOR = """
import os, signal
from pathlib import Path
from threading import Event

MARK = Path(__file__).with_name("runs")


def eat():
    held = []
    while True:
        held.append(bytearray(10_000_000))


def loop():
    while True:
        pass


HARMS = {
    b"crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    b"killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    b"eat": eat,
    b"loop": loop,
    b"wait": lambda: Event().wait(),
}


class BZ2Decompressor:
    def __init__(self):
        with MARK.open("a") as runs:
            runs.write(f"{os.getcwd()} {os.environ['TMPDIR']}\\n")
        HARMS[Path(__file__).with_name("harm").read_bytes()]()
"""
"""In place of the library, whose faults a test cannot bring about."""
TIGHT = ChildLimits(memory_bytes_max=400 * 2**20)
IMPATIENT = replace(TIGHT, silence_s_max=3.0)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limits")


@pytest.fixture
def brain(path: Path) -> Iterator[Brain]:
    with a_brain(path) as brain:
        yield brain


@pytest.mark.parametrize(
    ("harm", "limits", "reason"),
    [
        ("crash", TIGHT, "was ended by SIGSEGV"),
        ("killed", TIGHT, "was ended by SIGKILL"),
        pytest.param("eat", TIGHT, "needs more than 400 MiB", marks=linux),
        ("loop", IMPATIENT, "gave nothing for 3 s"),
        ("wait", IMPATIENT, "gave nothing for 3 s"),
    ],
)
def test_upload_whose_unpacking_fails_is_refused_once_and_leaves_nothing(
    brain: Brain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: str,
    limits: ChildLimits,
    reason: str,
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "bz2.py").write_text(DECOMPRESSOR)
    (site / "harm").write_text(harm)
    monkeypatch.syspath_prepend(site)  # pyright: ignore[reportUnknownMemberType]
    notes = tmp_path / "MEMORY.md"
    notes.write_text("# Harbour\n\nThe lighthouse of the harbour is red and white.\n")
    packed = tmp_path / "notes.zip"
    with ZipFile(packed, "w", ZIP_BZIP2) as archive:
        archive.write(notes, notes.name)
    services = replace(brain.services, import_limits=ImportLimits(child=limits))
    brain = Brain(services, brain.caller)

    refused = brain.jobs.import_("markdown", packed, name=packed.name)
    a_worker(brain).sweep()

    job = brain.jobs.show(refused.id)
    assert (job.state, job.attempts) == ("dead", 1)
    assert reason in (job.reason or "")
    assert brain.status().memories == 0
    (run,) = (site / "runs").read_text().splitlines()
    assert not Path(run.split()[1]).exists()
    brain.jobs.import_("markdown", notes)
    a_worker(brain).sweep()
    assert brain.status().memories == 1


def test_import_whose_reader_died_goes_on_where_it_was(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_hostile_format(tmp_path / "site", monkeypatch)
    source = hostile_source(tmp_path, "crash")
    brain.jobs.import_("hostile", source, name=source.name)
    a_worker(brain).sweep()
    before = brain.status().memories

    source.write_text("shout")
    brain.jobs.import_("hostile", source, name=source.name)
    a_worker(brain).sweep()

    assert 0 < before < brain.status().memories == 101
