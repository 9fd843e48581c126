"""Reasons are read out of a text; times, purposes and stray words are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.ingestion.rationale import MemoryMention, mentions, rationales
from commonbrain.model import ids


def test_only_reasons_are_extracted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, ...]]] = [
        ("We pin Node because the build breaks on 22.", ("the build breaks on 22",)),
        ("Because the build breaks, we pin Node.", ("the build breaks",)),
        ("The build breaks on 22, so we pin Node.", ("The build breaks on 22",)),
        ("Deploys wait, given that the queue is slow, but tests run.", ("the queue is slow",)),
        ("We ship on Monday since the team is away on Friday.", ("the team is away on Friday",)),
        ("We use Postgres since 2019.", ()),
        ("We use Postgres since last year, and it works.", ()),
        ("Postgres as well as Redis runs there.", ()),
        ("Postgres runs as a service of ours.", ()),
        ("Nothing is said here of any ground.", ()),
        ("Since then.", ()),
    ]
    for text, reasons in cases:
        with subtests.test(text=text, reasons=reasons):
            assert rationales(text) == reasons


def test_named_memories_are_distinguished_from_named_assumptions() -> None:
    one, other = ids.show(ids.MEMORY, 5), ids.show(ids.MEMORY, 7)
    assert mentions(f"See {one}; because of {other} we wait") == (
        MemoryMention(id=5, is_rationale=False),
        MemoryMention(id=7, is_rationale=True),
    )


@given(st.text(max_size=300))
def test_arbitrary_text_can_be_read(text: str) -> None:
    assert len(rationales(text)) <= 2
    assert len(mentions(text)) <= 3
