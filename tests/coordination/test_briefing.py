"""Laws of the briefing: within its tokens, its beginning fixed, and nothing lost unsaid."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.coordination.briefing import (
    CUT_IDS_MAX,
    MORE,
    Briefing,
    BriefingEntry,
    BriefingMaterial,
    InheritedHandoff,
    Listed,
    PinnedNote,
    SiblingSession,
    WorkingContext,
    entry_cost,
    pack_briefing,
    sections,
)
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import BOOT_CAPS, BOOT_SHARES, BOOT_TOKENS, BriefingLimits
from commonbrain.text.tokens import estimate

WORDS = "Never deploy the ledger on a Friday: nobody is there to mend what breaks, ask Ann first"
ID = "mem_0V5B2Q8ZK1M7X"


def line(chars: int) -> st.SearchStrategy[str]:
    """Anything that a stored text may be when it is shown: English, a dense script, any at all."""
    dense = st.sampled_from("重要な変更は必ず確認してください한국어Жизньابتثмир😀👩🏽‍🚒").flatmap(
        lambda one: st.integers(1, chars).map(lambda times: one * times)
    )
    english = st.integers(1, 8).map(lambda times: " ".join([WORDS] * times)[:chars])
    return (english | dense | st.text(min_size=1, max_size=chars)).map(inert_line)


IDS = st.integers(0, 2**65 - 1).map(lambda number: f"mem_{number:013X}"[:17])
NOTES = st.none() | line(60)
ENTRIES = st.builds(BriefingEntry, id=IDS, headline=line(120), note=NOTES)
PINNED = st.builds(PinnedNote, key=line(128), value=line(200))
SIBLINGS = st.builds(SiblingSession, session=line(128), agent=line(128), task=NOTES, note=NOTES)
TEXT = st.integers(1, 25).map(lambda times: "\n".join([WORDS] * times)) | line(2000)
HANDOFFS = st.builds(
    InheritedHandoff, id=IDS, agent=line(128), date=st.just("2026-03-02"), text=TEXT
)
CONTEXTS = st.builds(
    WorkingContext,
    task=line(200),
    names=st.lists(line(60), max_size=8).map(tuple),
    skills=st.lists(ENTRIES, max_size=5).map(tuple),
)


def listed(entries: st.SearchStrategy[Any], section: str) -> st.SearchStrategy[Listed[Any]]:
    """Few or as many as are ever asked for, most of them alike, so that much is drawn quickly."""
    most = BOOT_CAPS[section] + CUT_IDS_MAX
    few = st.lists(entries, max_size=3).map(tuple)
    many = st.tuples(entries, entries).map(lambda pair: (pair * most)[:most])
    return st.tuples(few | many, st.integers(0, 5000)).map(
        lambda drawn: Listed(first=drawn[0], total=len(drawn[0]) + drawn[1] * (len(drawn[0]) > 3))
    )


STABLE = {
    "blockers": listed(ENTRIES, "blockers"),
    "skills": listed(ENTRIES, "skills"),
    "notes": listed(PINNED, "notes"),
}
CHANGING: dict[str, st.SearchStrategy[Any]] = {
    "action_items": listed(ENTRIES, "action_items"),
    "handoff": st.none() | HANDOFFS,
    "urgent": listed(ENTRIES, "urgent"),
    "unread": st.integers(0, 10**6),
    "siblings": listed(SIBLINGS, "siblings"),
    "pinned": listed(ENTRIES, "pinned"),
    "patterns": listed(ENTRIES, "patterns"),
    "tasks": listed(ENTRIES, "tasks"),
    "changes": listed(ENTRIES, "changes"),
    "working_context": st.none() | CONTEXTS,
    "writes_blocked": st.booleans(),
    "session": st.none() | line(128),
    "project": st.none() | line(128),
    "degraded": st.lists(line(300), max_size=4).map(tuple),
}
MATERIALS = st.builds(BriefingMaterial, **STABLE, **CHANGING)


SHARES = st.fixed_dictionaries({name: st.floats(0, 0.5) for name in BOOT_SHARES})
LIMITS = st.builds(
    BriefingLimits,
    tokens=st.integers(1500, 4000),
    caps=st.fixed_dictionaries({name: st.integers(0, cap) for name, cap in BOOT_CAPS.items()}),
    shares=st.just(BOOT_SHARES) | SHARES,
    handoff_chars=st.integers(0, 2000),
)
NAMES = st.integers(0, 10**6 - 1).map(lambda number: f"name-{number:06d}")
ALIKE = st.builds(
    BriefingEntry,
    id=st.integers(0, 10**13 - 1).map(lambda number: f"mem_{number:013d}"),
    headline=line(120),
    note=NOTES,
)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    **{name: listed(ALIKE, name) for name in BOOT_CAPS},
    "notes": listed(st.builds(PinnedNote, key=NAMES, value=line(200)), "notes"),
    "siblings": listed(
        st.builds(SiblingSession, session=NAMES, agent=NAMES, task=NOTES), "siblings"
    ),
    "session": st.just("ses_0000000000000"),
    "project": st.none() | st.just("shop"),
    "degraded": st.just(()),
}


def json_prefix(briefing: Briefing) -> str:
    return briefing.to_json().partition('"action_items"')[0]


@pytest.mark.requirement("SE-01", "PF-01", "SE-19")
@given(MATERIALS, LIMITS)
def test_briefing_never_exceeds_its_token_budget(
    material: BriefingMaterial, limits: BriefingLimits
) -> None:
    briefing = pack_briefing(material, limits=limits)

    for written in (briefing.text, briefing.to_json()):
        assert estimate(written) <= briefing.tokens <= limits.tokens


@pytest.mark.requirement("SE-01", "SE-02")
@given(MATERIALS)
def test_shown_and_left_out_entries_add_up_to_all_entries(
    material: BriefingMaterial,
) -> None:
    briefing = pack_briefing(material)

    left_out = {cut.section: cut.left_out for cut in briefing.truncated}
    counted = 0
    for section, cap in BOOT_CAPS.items():
        shown = getattr(briefing, section)
        of: Listed[Any] = getattr(material, section)
        assert len(shown) <= cap
        places = iter(of.first[:cap])
        assert all(any(one == place for place in places) for one in shown)
        in_more = of.total - left_out.get(section, 0) - len(shown)
        assert in_more >= 0 if section in STABLE else in_more == 0
        counted += in_more
    assert counted == len(briefing.more)
    for cut in briefing.truncated:
        assert len(cut.ids) <= CUT_IDS_MAX
        assert cut.left_out > 0


def smallest_left_out(material: BriefingMaterial, briefing: Briefing) -> int | None:
    """Return the tokens of the smallest entry within a cap that is not shown."""
    costs: list[int] = []
    more: list[Any] = list(briefing.more)
    for section, cap in BOOT_CAPS.items():
        shown: list[Any] = [*getattr(briefing, section)]
        for one in getattr(material, section).first[:cap]:
            known = next((it for it in (shown, more) if one in it or blocker(one) in it), None)
            if known is None:
                costs.append(max(entry_cost(one)) + HEADING)
            else:
                known.remove(one if one in known else blocker(one))
    return min(costs, default=None)


def blocker(one: object) -> object:
    """Return an entry as it is shown outside the section of blockers."""
    if not isinstance(one, BriefingEntry):
        return one
    return replace(one, note=f"BLOCKER, {one.note}" if one.note else "BLOCKER")


HEADING = 12
WORD = 12
"""A handoff that is cut leaves less unused than a long word takes."""


@pytest.mark.requirement("SE-02", "SE-37")
@given(st.builds(BriefingMaterial, **STABLE | CHANGING | PLAIN))
def test_unused_tokens_are_fewer_than_the_smallest_left_out_entry(
    material: BriefingMaterial,
) -> None:
    briefing = pack_briefing(material)

    unused = BOOT_TOKENS - briefing.tokens
    smallest = smallest_left_out(material, briefing)
    assert smallest is None or unused < smallest
    left_out = sum(cut.left_out for cut in briefing.truncated if cut.section == "handoff")
    shown = len(material.handoff.text) - left_out if material.handoff else 0
    # A handoff longer than any may be is cut there, whatever is unused.
    if left_out and shown < BriefingLimits().handoff_chars:
        assert unused < WORD


def stable_lines(briefing: Briefing) -> list[str]:
    """The beginning that a client can cache: rules, skills and pinned notes."""
    names = {"notice", "blockers", "skills", "notes"}
    return [line for name, lines in sections(briefing) if name in names for line in lines]


@given(st.builds(BriefingMaterial, **STABLE), st.builds(BriefingMaterial, **CHANGING))
def test_stable_part_of_a_briefing_does_not_depend_on_the_rest(
    one: BriefingMaterial, other: BriefingMaterial
) -> None:
    stable = {name: getattr(one, name) for name in STABLE}
    before, after = pack_briefing(one), pack_briefing(replace(other, **stable))

    assert stable_lines(before) == stable_lines(after)
    assert after.text.startswith("\n".join(stable_lines(before)))
    assert json_prefix(before) == json_prefix(after)


def entries(count: int, what: str = WORDS) -> Listed[BriefingEntry]:
    return Listed(
        first=tuple(BriefingEntry(id=f"mem_{n:013d}", headline=what) for n in range(count)),
        total=count,
    )


def crowded(**more: Any) -> BriefingMaterial:  # noqa: ANN401 fields of any sort
    """Everything full of ordinary English."""
    notes = tuple(PinnedNote(key=f"key {n}", value=WORDS) for n in range(10))
    siblings = tuple(
        SiblingSession(session=f"ses_{n:013d}", agent="codex", task=WORDS) for n in range(12)
    )
    full = BriefingMaterial(
        blockers=entries(7),
        skills=entries(7),
        notes=Listed(first=notes, total=10),
        action_items=entries(2),
        urgent=entries(7),
        unread=1000,
        siblings=Listed(first=siblings, total=49),
        patterns=entries(7),
        tasks=entries(22),
        session="ses_0000000000000",
        project="shop",
    )
    return replace(full, **more)


@pytest.mark.requirement("SE-02")
def test_sections_get_their_share_and_the_rest_by_importance() -> None:
    text = "\n".join([WORDS] * 20)[:1690]
    handoff = InheritedHandoff(id=ID, agent="ann", date="2026-03-02", text=text)
    briefing = pack_briefing(crowded(action_items=entries(5), handoff=handoff))

    assert briefing.handoff == handoff
    assert len(briefing.action_items) == 5
    for section in ("urgent", "siblings", "patterns", "tasks"):
        assert len(getattr(briefing, section)) >= 2
    assert briefing.tokens > 0.95 * BOOT_TOKENS


@pytest.mark.requirement("SE-02")
def test_unused_share_goes_to_the_most_important_cut_section() -> None:
    few = pack_briefing(crowded(siblings=Listed(), urgent=Listed(), handoff=None))
    full = pack_briefing(crowded(siblings=Listed(), urgent=Listed(), action_items=entries(10)))

    assert len(few.patterns) == len(full.patterns) == 7
    assert len(full.action_items) == BOOT_CAPS["action_items"]
    assert len(few.tasks) > len(full.tasks) > 0


def test_rules_fill_what_tasks_leave_and_come_before_them() -> None:
    rules, tasks = entries(40, "Quote every variable in a script."), entries(20)
    limits = BriefingLimits(tokens=1200)
    briefing = pack_briefing(BriefingMaterial(patterns=rules, tasks=tasks), limits=limits)

    assert len(briefing.patterns) > 20 > len(briefing.tasks) > 0
    assert briefing.tokens > 0.95 * limits.tokens


@pytest.mark.requirement("SE-02")
def test_entries_that_do_not_fit_the_stable_part_are_listed_after_it() -> None:
    long = f"{WORDS} and Bob"
    notes = tuple(PinnedNote(key=f"key {n}", value=f"{long} {long}") for n in range(10))
    material = BriefingMaterial(
        blockers=entries(5, long), skills=entries(5, long), notes=Listed(first=notes, total=10)
    )
    briefing = pack_briefing(material)

    assert len(briefing.blockers) == 5
    assert 0 < len(briefing.notes) < 10
    assert {*briefing.notes, *briefing.more} == {*notes}
    assert briefing.truncated == ()
    assert MORE in briefing.text.splitlines()


def test_blocker_beyond_its_section_is_labelled() -> None:
    limits = BriefingLimits(shares=dict.fromkeys(BOOT_SHARES, 0.02))
    material = BriefingMaterial(blockers=entries(5, f"{WORDS} and Bob"), tasks=entries(1))
    briefing = pack_briefing(material, limits=limits)

    assert briefing.blockers
    assert {one.note for one in briefing.more if isinstance(one, BriefingEntry)} == {"BLOCKER"}
    assert len(briefing.blockers) + len(briefing.more) == 5
    assert "BLOCKERS loaded: 5" in briefing.loaded


def test_cut_section_names_its_next_entries() -> None:
    limits = BriefingLimits(caps={**BOOT_CAPS, "blockers": 5})
    briefing = pack_briefing(crowded(), limits=limits)

    cuts = {cut.section: cut for cut in briefing.truncated}
    first = len(briefing.tasks)
    assert 0 < first < BOOT_CAPS["tasks"]
    assert cuts["tasks"].ids == tuple(f"mem_{n:013d}" for n in (first, first + 1))
    assert cuts["blockers"].left_out == 2
    assert cuts["siblings"].left_out == 49 - len(briefing.siblings)
    assert "Not shown of tasks: " in briefing.text


@pytest.mark.requirement("SE-04")
def test_oversized_handoff_is_cut_with_its_id_and_missing_length() -> None:
    text = "\n".join(f"{n}. {WORDS}" for n in range(22))[:2000]
    handoff = InheritedHandoff(id=ID, agent="ann", date="2026-03-02", text=text)

    briefing = pack_briefing(crowded(action_items=entries(10, f"{WORDS} and Bob"), handoff=handoff))

    assert briefing.handoff
    assert briefing.handoff.text.endswith("…")
    assert text.startswith(briefing.handoff.text.removesuffix("…"))
    (cut,) = (one for one in briefing.truncated if one.section == "handoff")
    assert cut.left_out == len(text) - len(briefing.handoff.text.removesuffix("…"))
    assert cut.ids == (ID,)


def test_briefing_of_a_typical_project_takes_at_most_600_tokens() -> None:
    briefing = pack_briefing(
        BriefingMaterial(
            blockers=entries(3, "Never push to main without a review."),
            patterns=entries(3, "Prefer small commits that say why."),
            tasks=entries(4, "Mend the login page: it drops the cart."),
            handoff=InheritedHandoff(id=ID, agent="ann", date="2026-03-02", text=WORDS),
            session="ses_0000000000000",
            project="shop",
        )
    )

    assert briefing.truncated == ()
    assert briefing.tokens <= 600
    assert "BLOCKERS loaded: 3, TASKS loaded: 4" in briefing.text


@pytest.mark.parametrize(("count", "shown"), [(100, "100"), (101, "100+"), (1001, "100+")])
def test_boot_counts_unread_messages_up_to_a_hundred(count: int, shown: str) -> None:
    lines = pack_briefing(BriefingMaterial(unread=count)).text.splitlines()
    assert f"MESSAGES: {shown} unread" in lines
