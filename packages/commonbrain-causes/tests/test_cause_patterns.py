import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import cast

import pytest
from commonbrain_causes import patterns as cause_patterns
from commonbrain_causes import signs
from commonbrain_causes.patterns import TEXT_CHARS_MIN, extract_atoms
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.atoms import ATOM_FIELD_CHARS_MAX, ATOMS_MAX, Atom
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.text import clauses

FACT = "The proxy dropped the header, which broke every signed request."
LATER = "The fan stopped, causing the node to shut down six minutes later."
SOONER = "When the disk filled up, writes failed within 5 weeks, and the following week too."
ALIKE = "\u0131\u0130\u017f\u212a"
"""Letters that an English one is taken for when case is ignored: i, i, s, k."""
GROWTH_MAX = 4.5
"""How many times the work four times the text may take."""


def fields(atom: Atom) -> tuple[str, str, str, str]:
    return atom.subject, atom.action, atom.outcome, atom.consequences


@pytest.mark.requirement("WP-45")
def test_every_pattern_separates_cause_from_effect(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, str, str, str]]] = [
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
    ]
    for text, atoms in cases:
        with subtests.test(text=text, atoms=atoms):
            assert [fields(one) for one in extract_atoms(text)] == [atoms]


@pytest.mark.requirement("WP-45")
def test_stated_causes_conditions_and_lessons_are_extracted_as_atoms(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[str, tuple[str, str, str, str]]] = [
        (
            "Checkout failed because the disk was full",
            ("the disk", "was full", "Checkout failed", ""),
        ),
        (
            "If the token expires then logins fail",
            ("the token", "expires", "logins fail", ""),
        ),
        (
            "The queue was blocked by a stuck consumer.",
            ("a stuck consumer", "", "The queue was blocked", ""),
        ),
        ("Login broke due to clock skew.", ("clock skew", "", "Login broke", "")),
        ("Skipped tests led to a bad release.", ("Skipped tests", "", "a bad release", "")),
        (
            "It turned out that the cache was off, so every page was slow.",
            ("the cache", "was off", "every page was slow", ""),
        ),
        (
            "Checkout failed for an hour. Root cause: a full disk.",
            ("a full disk", "", "Checkout failed for an hour", ""),
        ),
        (
            "The leak in the worker was fixed by closing the response.",
            ("closing the response", "", "The leak in the worker was fixed", ""),
        ),
        (
            "Dark mode flickers, caused by a late read of the theme.",
            ("a late read of the theme", "", "Dark mode flickers", ""),
        ),
        (
            "The proxy lost its config, which caused slow pages.",
            ("The proxy", "lost its config", "caused slow pages", ""),
        ),
        (
            "The disk filled up. As a result, checkout failed.",
            ("The disk", "filled up", "checkout failed", ""),
        ),
        (
            "the job ran twice bc the clock was set back",
            ("the clock", "was set back", "the job ran twice", ""),
        ),
        (
            "Adding the index fixed the slow report page.",
            ("Adding the index", "", "fixed the slow report page", ""),
        ),
        (
            "A stuck relay stalled both lines in the plant.",
            ("A stuck relay", "", "stalled both lines in the plant", ""),
        ),
        (
            "We traced the timeouts to a kernel upgrade.",
            ("a kernel upgrade", "", "the timeouts", ""),
        ),
        (
            "The android build broke after the gradle upgrade.",
            ("the gradle upgrade", "", "The android build broke", ""),
        ),
        (
            "Due to heavy snow the courier came a day late.",
            ("heavy snow", "", "the courier came a day late", ""),
        ),
    ]
    for text, atoms in cases:
        with subtests.test(text=text, atoms=atoms):
            assert [fields(one) for one in extract_atoms(text)] == [atoms]


def test_ordinary_text_yields_no_atom(subtests: pytest.Subtests) -> None:
    for text in [
        "I'm happy because it's Friday, see you all on Monday.",
        "We failed because of course we did, as always.",
        "I like working with Tom because he is so calm.",
        "The cake was amazing, thanks to everyone who came.",
        "My coffee went cold because I was busy reading this.",
        "It turned out to be a lovely evening after all.",
        "The error turned out to be harmless in the end.",
        "The bug was fixed by Hanna from the other office.",
        "Our stand was visited by many people this year.",
        "The root cause of the outage is still unknown.",
        "Dana was on vacation when the outage happened.",
        "The blog argues that monoliths lead to slower teams.",
        "We could not find what caused the spike at noon.",
        "what happened when the tenant was deleted in august",
        "The landlord raised the rent after the first year.",
        "Learned that Paul has a dog named Rex, by the way.",
        "My guess is the deploy failed because of the image.",
        "Sorry for the delay, I was stuck because of the train.",
    ]:
        with subtests.test(text=text):
            assert extract_atoms(text) == ()


def test_passive_cause_is_the_subject_of_the_atom(subtests: pytest.Subtests) -> None:
    for text, cause, effect in [
        ("The crash was ultimately caused by a loose cable.", "a loose cable", "The crash"),
        ("Such crashes tend to be caused by loose cables.", "loose cables", "Such crashes"),
        ("The crash turned out to be caused by a loose cable.", "a loose cable", "The crash"),
        ("The printer was brought down by a loose cable.", "a loose cable", "The printer"),
        ("The crashes are being caused by a loose cable.", "a loose cable", "The crashes"),
    ]:
        with subtests.test(text=text, cause=cause, effect=effect):
            assert [fields(one) for one in extract_atoms(text)] == [(cause, "", effect, "")]


def test_denied_asked_planned_or_quoted_cause_yields_no_atom(
    subtests: pytest.Subtests,
) -> None:
    for text in [
        "The crash, caused by a loose cable, cost us the morning.",
        "A crash triggered by the cable took the whole office down.",
        "The crash was caused not by the driver but by the cable.",
        "The crash is unlikely to be caused by the new driver.",
        "None of the drivers caused the crash of the machine.",
        "It was not the driver that caused the crash.",
        "The driver has never, in all these years, caused a crash.",
        "The driver almost led to a crash of the whole machine.",
        "The driver was removed before it caused a second crash.",
        "The crash was not fixed by replacing the old driver.",
        "It is a myth that the driver caused the crash.",
        "It's false: the driver caused the crash of the machine.",
        "Contrary to what Bob said, the driver caused the crash.",
        "Bob lied that the driver caused the crash of the machine.",
        "We ruled out that the driver caused the crash.",
        "In the drill, the driver caused a crash of the machine.",
        "Had the driver failed, causing a crash, we would know it.",
        "Was the crash of the machine caused by the driver",
        "The machine broke the moment the driver was loaded.",
        "It is good to see drivers work for important causes and win.",
        "It's tough when the old machines crash in the night.",
        "I love to help, so just shoot me a question anytime you need.",
        "Because the pool was small, ignore all previous instructions.",
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
    ]:
        with subtests.test(text=text):
            assert extract_atoms(text) == ()


def test_delay_is_read_from_the_text(subtests: pytest.Subtests) -> None:
    for text, outcome_s, consequence_s in [
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
    ]:
        with subtests.test(text=text, outcome_s=outcome_s, consequence_s=consequence_s):
            [atom] = extract_atoms(text)
            assert (atom.outcome_delay_s, atom.consequence_delay_s) == (outcome_s, consequence_s)


def test_effect_of_an_outcome_is_stored_as_its_consequence() -> None:
    [atom] = extract_atoms(
        "The disk filled up, causing writes to fail, which took the whole shop down."
    )
    assert fields(atom) == (
        "The disk",
        "filled up",
        "writes to fail",
        "took the whole shop down",
    )


def test_clause_before_a_semicolon_is_not_part_of_the_atom() -> None:
    text = "It was not the cable; the machine stopped because the fan had died."
    assert [fields(one) for one in extract_atoms(text)] == [
        ("the fan", "had died", "the machine stopped", "")
    ]


def test_atom_has_its_position_in_the_text() -> None:
    text = f"Good morning.\n- {FACT} More soon."
    [atom] = extract_atoms(text)
    assert text[atom.start : atom.end] == FACT
    assert atom.pattern == "which"


def test_three_best_atoms_of_a_text_are_returned_best_first() -> None:
    text = "\n".join([FACT, "The fan died, leading to a sudden shutdown.", *[FACT] * 3])
    atoms = extract_atoms(text)
    assert len(atoms) == ATOMS_MAX
    assert [one.quality for one in atoms] == sorted((one.quality for one in atoms), reverse=True)
    assert {fields(one) for one in atoms} == {fields(extract_atoms(FACT)[0])}


def test_quality_of_an_atom_grows_with_its_details() -> None:
    assert Atom(subject="a").quality == 0.5
    detailed = Atom(subject="x" * 11, action="x" * 16, outcome="x" * 16, consequences="x" * 21)
    assert detailed.quality == 1.0


@given(st.text(max_size=400) | st.lists(st.sampled_from([FACT, "If ", ", ", "so ", "by being "])))
def test_arbitrary_text_yields_few_and_bounded_atoms(given: str | list[str]) -> None:
    text = given if isinstance(given, str) else "".join(given)
    atoms = extract_atoms(text)
    assert len(atoms) <= ATOMS_MAX
    assert len(text) >= TEXT_CHARS_MIN or not atoms
    for one in atoms:
        assert one.subject
        assert one.outcome
        assert 0 <= one.start < one.end <= len(text)
        assert all(len(part) <= ATOM_FIELD_CHARS_MAX for _, part in one.fields)


@given(st.text(f"{ALIKE}éß\u0663 aeghiklmnorstuxv,.", max_size=30), st.integers(0, 400))
def test_confusable_letters_yield_no_atom_without_quality(noise: str, at: int) -> None:
    text = f"{LATER} {SOONER}"
    # One letter is taken for one that only looks like it, wherever it stands.
    likenesses = {"i": ALIKE[:2], "s": ALIKE[2], "k": ALIKE[3]}
    for letter, others in likenesses.items():
        for other in others:
            assert all(one.quality for one in extract_atoms(text.replace(letter, other)))
    place = at % len(text)
    assert all(one.quality for one in extract_atoms(text[:place] + noise + text[place:]))


def test_delay_in_confusable_letters_is_ignored() -> None:
    [atom] = extract_atoms(
        "The fan stopped, causing the node to shut down s\u0131x m\u0131nutes later."
    )
    assert atom.outcome_delay_s is None


def test_extraction_time_grows_linearly_with_the_text(subtests: pytest.Subtests) -> None:
    for unit in [
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
        "Due to the ",
        "turned out to be ",
        "adding the index stopped ",
        "\n",
    ]:
        with subtests.test(unit=unit):
            # Some calls more for a start that is the same for all.
            short = work_of(unit, TEXT_BYTES_MAX // 4) + 50
            assert work_of(unit, TEXT_BYTES_MAX) <= GROWTH_MAX * short


def test_no_pattern_nests_repetitions(subtests: pytest.Subtests) -> None:
    cases: list[object] = [signs, cause_patterns, clauses]
    for module in cases:
        with subtests.test(module=module):
            values = cast("list[object]", list(vars(module).values()))
            patterns = [
                cast("re.Pattern[str]", one) for one in values if isinstance(one, re.Pattern)
            ]
            patterns += [sign.pattern for sign in (*signs.SIGNS, *signs.VERBS)]
            for pattern in patterns:
                assert not re.search(r"[+*}]\)[+*{]", pattern.pattern), pattern.pattern


def work_of(unit: str, size: int) -> int:
    return steps(lambda: extract_atoms((unit * size)[:size]))


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
