"""Laws of the briefing: within its tokens, its beginning fixed, and nothing lost unsaid."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commonbrain.coordination.briefing import (
    BRIEFING_TOKENS_MAX,
    CAPS,
    CUT_IDS_MAX,
    STABLE_TOKENS_MAX,
    ActiveSession,
    Briefing,
    BriefingEntry,
    BriefingMaterial,
    InheritedHandoff,
    Listed,
    PinnedNote,
    WorkingContext,
    pack_briefing,
    prefix,
    token_cost,
)
from commonbrain.model.escaping import inert_line
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
SIBLINGS = st.builds(ActiveSession, session=line(128), agent=line(128), task=NOTES, note=NOTES)
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
    most = CAPS[section] + CUT_IDS_MAX
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


def json_prefix(briefing: Briefing) -> str:
    return briefing.to_json().partition('"action_items"')[0]


@pytest.mark.requirement("SE-01", "PF-01", "SE-19")
@settings(max_examples=60)
@given(MATERIALS)
def test_whatever_there_is_to_tell_a_briefing_stays_within_its_tokens(
    material: BriefingMaterial,
) -> None:
    briefing = pack_briefing(material)

    for_programs = json.dumps(asdict(briefing), ensure_ascii=False)
    for written in (briefing.text, briefing.to_json(), for_programs):
        assert estimate(written) <= BRIEFING_TOKENS_MAX
    assert token_cost(briefing) <= BRIEFING_TOKENS_MAX


@pytest.mark.requirement("SE-01", "SE-02")
@settings(max_examples=40)
@given(MATERIALS)
def test_what_is_shown_and_what_is_reported_make_up_what_there_is(
    material: BriefingMaterial,
) -> None:
    briefing = pack_briefing(material)

    left_out = {cut.section: cut.left_out for cut in briefing.truncated}
    for section, cap in CAPS.items():
        shown = getattr(briefing, section)
        of: Listed[Any] = getattr(material, section)
        assert len(shown) <= cap
        assert shown == of.first[: len(shown)]
        assert len(shown) + left_out.get(section, 0) == of.total
    for cut in briefing.truncated:
        assert len(cut.ids) <= CUT_IDS_MAX
        assert cut.left_out > 0


@settings(max_examples=40)
@given(st.builds(BriefingMaterial, **STABLE), st.builds(BriefingMaterial, **CHANGING))
def test_the_stable_part_is_the_same_whatever_else_changes(
    one: BriefingMaterial, other: BriefingMaterial
) -> None:
    stable = {name: getattr(one, name) for name in STABLE}
    before, after = pack_briefing(one), pack_briefing(replace(other, **stable))

    assert list(prefix(before)) == list(prefix(after))
    assert after.text.startswith("\n".join(prefix(before)))
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
        ActiveSession(session=f"ses_{n:013d}", agent="codex", task=WORDS) for n in range(12)
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
def test_tasks_are_cut_first_then_patterns_siblings_messages_the_handoff_and_action_items() -> None:
    def shown(items: int, handoff_lines: int) -> dict[str, int]:
        text = "\n".join([WORDS] * handoff_lines)
        handoff = InheritedHandoff(id=ID, agent="ann", date="2026-03-02", text=text)
        briefing = pack_briefing(crowded(action_items=entries(items), handoff=handoff))
        sections = ("tasks", "patterns", "siblings", "urgent", "action_items")
        counts = {name: len(getattr(briefing, name)) for name in sections}
        assert briefing.handoff
        return counts | {"handoff": len(briefing.handoff.text)}

    seen = [shown(items, lines) for items, lines in ((0, 0), (0, 8), (2, 12), (4, 16), (10, 22))]

    assert seen[0]["tasks"] < CAPS["tasks"]
    assert seen[0]["siblings"] > 0
    for one in seen:
        order = [one["tasks"], one["patterns"], one["siblings"], one["urgent"]]
        caps = [CAPS["tasks"], CAPS["patterns"], CAPS["siblings"], CAPS["urgent"]]
        # Whatever is cut at all, what goes before it is gone.
        for place, (count, cap) in enumerate(zip(order, caps, strict=True)):
            if count < cap:
                assert not any(order[:place])
    assert [one["action_items"] for one in seen] == [0, 0, 2, 4, 10]
    assert 0 < seen[-1]["handoff"] < 22 * len(WORDS)


@pytest.mark.requirement("SE-02")
def test_of_the_stable_part_notes_go_first_and_blockers_last() -> None:
    briefing = pack_briefing(crowded())

    assert len(briefing.blockers) == CAPS["blockers"]
    assert 0 < len(briefing.notes) < CAPS["notes"]
    assert sum(map(token_cost, (briefing.blockers, briefing.skills, briefing.notes))) < (
        STABLE_TOKENS_MAX * 1.1
    )


def test_every_cut_names_what_would_have_come_next() -> None:
    briefing = pack_briefing(crowded())

    cuts = {cut.section: cut for cut in briefing.truncated}
    first = len(briefing.tasks)
    assert cuts["tasks"].ids == tuple(f"mem_{n:013d}" for n in (first, first + 1))
    assert cuts["blockers"].left_out == 2
    assert cuts["siblings"].left_out == 49 - len(briefing.siblings)
    assert "Not shown of tasks: " in briefing.text


@pytest.mark.requirement("SE-04")
def test_a_handoff_that_does_not_fit_is_shown_in_part_with_its_id_and_what_is_missing() -> None:
    text = "\n".join(f"{n}. {WORDS}" for n in range(22))[:2000]
    handoff = InheritedHandoff(id=ID, agent="ann", date="2026-03-02", text=text)

    briefing = pack_briefing(crowded(action_items=entries(10), handoff=handoff))

    assert briefing.handoff
    assert briefing.handoff.text.endswith("…")
    assert text.startswith(briefing.handoff.text.removesuffix("…"))
    (cut,) = (one for one in briefing.truncated if one.section == "handoff")
    assert cut.left_out == len(text) - len(briefing.handoff.text.removesuffix("…"))
    assert cut.ids == (ID,)


def test_a_typical_project_takes_a_third_of_the_room() -> None:
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
