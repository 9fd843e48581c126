import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.domain import atomize, causal, causal_fits, clause, cuts
from commonbrain.domain.atom import ATOM_FIELD_CHARS_MAX, ATOMS_MAX, QUALITY_MIN, Atom
from commonbrain.domain.atomize import TEXT_CHARS_MIN, atoms
from commonbrain.domain.limits import TEXT_BYTES_MAX

FACT = "The proxy dropped the header, which broke every signed request."
GROWTH_MAX = 4.5
"""How many times the work four times the text may take."""


def fields(atom: Atom) -> tuple[str, str, str, str]:
    return atom.subject, atom.action, atom.outcome, atom.consequences


@pytest.mark.requirement("WP-45")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "The mixer stopped, causing the sauce to burn.",
            ("The mixer", "stopped", "the sauce to burn", ""),
        ),
        (
            "A cheap cable resulted in a week of packet loss.",
            ("A cheap cable", "", "a week of packet loss", ""),
        ),
        (
            "The fan died, leading to a sudden shutdown.",
            ("The fan", "died", "a sudden shutdown", ""),
        ),
        (
            "When the pool ran dry, new logins timed out.",
            ("the pool", "ran dry", "new logins timed out", ""),
        ),
        (FACT, ("The proxy", "dropped the header", "broke every signed request", "")),
        (
            "If the pool is empty, then every login waits.",
            ("the pool", "is empty", "every login waits", ""),
        ),
        (
            "The demo failed because the projector overheated.",
            ("the projector", "overheated", "The demo failed", ""),
        ),
        (
            "The projector overheated. This caused a long delay.",
            ("The projector", "overheated", "caused a long delay", ""),
        ),
        (
            "Learned that shaking the rack drops all the disks.",
            ("shaking the rack", "", "drops all the disks", ""),
        ),
        (
            "Decided to keep Perl because two customers embed it.",
            ("two customers", "embed it", "Decided to keep Perl", ""),
        ),
        (
            "We prefer paper since the tablets are always empty.",
            ("the tablets", "are always empty", "We prefer paper", ""),
        ),
        (
            "Fixed the flicker by replacing the ballast.",
            ("replacing the ballast", "", "Fixed the flicker", ""),
        ),
        (
            "We froze the versions so that builds are repeatable.",
            ("We", "froze the versions", "builds are repeatable", ""),
        ),
    ],
)
def test_every_pattern_tells_cause_from_effect(text: str, found: tuple[str, str, str, str]) -> None:
    assert [fields(one) for one in atoms(text)] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "The crash was not caused by the driver at all.",
        "The restart went through without causing an outage.",
        "Did the crash happen because the driver was old?",
        "If we had tested the driver, the crash would not have happened.",
        "We will replace the driver because it is four years old.",
        "A new driver might lead to fewer crashes in production.",
        "Maybe the crash happened because the driver is old.",
        "The machine has been stable since the driver was replaced.",
        "If the machine crashes, call the number on the door.",
        "Use the old driver when the machine crashes at night.",
        "> The driver was old, which broke the machine.",
        "```\nthe driver was old, which broke the machine\n```",
    ],
)
def test_what_is_denied_asked_planned_supposed_or_quoted_is_no_fact(text: str) -> None:
    assert atoms(text) == ()


@pytest.mark.parametrize(
    ("text", "outcome_s", "consequence_s"),
    [
        ("The lease expired, causing two leaders to write two hours later.", 7200, None),
        ("When the tank runs dry, the pump fails within 30 seconds.", 30, None),
        ("Because the fan had stopped, the node shut down after half an hour.", 1800, None),
        (
            "The fan stopped, causing the node to overheat, which killed the disk the next day.",
            None,
            86_400,
        ),
        (
            "A fuse blew, which cut off the office, and ten minutes later the phones died.",
            None,
            600,
        ),
        (FACT, None, None),
    ],
)
def test_delays_are_read_where_the_text_tells_them(
    text: str, outcome_s: float | None, consequence_s: float | None
) -> None:
    [atom] = atoms(text)
    assert (atom.outcome_delay_s, atom.consequence_delay_s) == (outcome_s, consequence_s)


def test_what_an_outcome_caused_in_turn_is_its_consequence() -> None:
    [atom] = atoms("The disk filled up, causing writes to fail, which took the whole shop down.")
    assert fields(atom) == (
        "The disk",
        "filled up",
        "writes to fail",
        "took the whole shop down",
    )


def test_an_atom_says_where_it_was_found() -> None:
    text = f"Good morning.\n- {FACT} More soon."
    [atom] = atoms(text)
    assert text[atom.start : atom.end] == FACT
    assert atom.pattern == "which"


def test_of_many_the_three_that_tell_most_are_kept_best_first() -> None:
    text = "\n".join([FACT, "The fan died, leading to a sudden shutdown.", *[FACT] * 3])
    found = atoms(text)
    assert len(found) == ATOMS_MAX
    assert [one.quality for one in found] == sorted((one.quality for one in found), reverse=True)
    assert {fields(one) for one in found} == {fields(atoms(FACT)[0])}


def test_quality_counts_what_is_told() -> None:
    assert Atom(subject="a").quality == 0.5
    told = Atom(subject="x" * 11, action="x" * 16, outcome="x" * 16, consequences="x" * 21)
    assert told.quality == 1.0


@given(st.text(max_size=400) | st.lists(st.sampled_from([FACT, "If ", ", ", "so ", "by being "])))
def test_any_text_gives_few_and_bounded_atoms(given: str | list[str]) -> None:
    text = given if isinstance(given, str) else "".join(given)
    found = atoms(text)
    assert len(found) <= ATOMS_MAX
    assert len(text) >= TEXT_CHARS_MIN or not found
    for one in found:
        assert one.subject
        assert one.outcome
        assert one.quality >= QUALITY_MIN
        assert 0 <= one.start < one.end <= len(text)
        assert all(len(part) <= ATOM_FIELD_CHARS_MAX for _, part in one.fields)


@pytest.mark.parametrize(
    "unit",
    [
        FACT + " ",
        "because ",
        "a, ",
        "if a, b ",
        "so ",
        ". ",
        "x",
        " ",
        "by being ",
        "which\n",
        "\n",
    ],
)
def test_work_grows_with_the_text_and_no_faster(unit: str) -> None:
    def work(size: int) -> int:
        return steps(lambda: atoms((unit * size)[:size]))

    # One call more for a start that is the same for all.
    assert work(TEXT_BYTES_MAX) <= GROWTH_MAX * (work(TEXT_BYTES_MAX // 4) + 50)


@pytest.mark.parametrize("module", [atomize, causal, causal_fits, clause, cuts])
def test_no_pattern_can_match_one_stretch_in_many_ways(module: object) -> None:
    held = cast("list[object]", list(vars(module).values()))
    own = [cast("re.Pattern[str]", one) for one in held if isinstance(one, re.Pattern)]
    own += [row.sign for row in (*causal.PATTERNS, *causal.LESSONS)]
    for pattern in own:
        assert not re.search(r"[+*}]\)[+*{]", pattern.pattern), pattern.pattern


def steps(run: Callable[[], object]) -> int:
    """Count the calls that something makes, those into C included."""
    count = 0

    def note(_frame: FrameType, event: str, _what: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count
