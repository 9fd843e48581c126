"""A format of a package, whose importer does to its process what the source says."""

from pathlib import Path

import pytest

from tests.distributions import add_distribution

ROWS = "[commonbrain.importers]\nhostile = hostile_of_ann:IMPORTER\n"
MODULE = """
import os, signal
from threading import Event

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Importer, ImportItem


def line_then_killed():
    yield b"first"
    os.kill(os.getpid(), signal.SIGKILL)


def pid_then_nothing():
    yield str(os.getpid()).encode()
    Event().wait()


def fact(body):
    return ImportItem(content=Draft(body=body, kind="fact", source_ref=body[:40]), progress=0.5)


def loop():
    while True:
        pass


def eat():
    held = []
    while True:
        held.append(bytearray(10_000_000))


def shout():
    print("no piece")
    os.write(1, b"no piece")


class Hostile(Importer):
    name = "hostile"
    purpose = "A text whose first word says what to do"

    def read(self, source):
        deeds = {
            "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
            "exit": lambda: os._exit(7),
            "fail": lambda: {}["key"],
            "loop": loop,
            "sleep": lambda: Event().wait(),
            "eat": eat,
            "shout": shout,
            "swell": lambda: None,
            "overflow": lambda: os.write(3, b"v" + bytes(5_000_000)),
        }
        word = source.read_text().split()[0]
        for number in range(100):
            yield fact(f"The crane on quay {number} lifts {number} tons of steel.")
        if word == "swell":
            # One character that is none of Latin-1 makes Python store each in four bytes.
            yield from (fact("\\N{SAILBOAT}" + "x" * 1_100_000) for _ in range(100))
        elif word == "lengthen":
            yield fact("x" * 16_000_000)
        else:
            deeds[word]()
        yield fact("The lock of the harbour opens at noon in winter.")


IMPORTER = Hostile()
"""


def install_hostile_format(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Install the format `hostile` for this process and its children."""
    add_distribution(folder, "hostile-of-ann", ROWS)
    (folder / "hostile_of_ann.py").write_text(MODULE, "utf-8")
    patch.syspath_prepend(folder)  # pyright: ignore[reportUnknownMemberType]


def hostile_source(folder: Path, word: str) -> Path:
    """Write a source that does what the word says, after a hundred facts."""
    path = folder / f"{word}.txt"
    path.write_text(word, "utf-8")
    return path
