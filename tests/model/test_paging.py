"""Cursors: every row once, in order, and nothing else is accepted as one."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.paging import Listing, count_text, more_line

ROWS = st.lists(st.tuples(st.integers(0, 2**62), st.text(max_size=8)), unique=True, max_size=40)


def listing(cursor: str | None = None, *, limit: int = 3, **filters: object) -> Listing:
    return Listing(name="numbers", limit=limit, cursor=cursor, filters=filters)


@pytest.mark.requirement("OB-14")
@given(rows=ROWS, limit=st.integers(1, 7))
def test_pages_contain_every_row_once_and_count_the_rest(
    rows: list[tuple[int, str]], limit: int
) -> None:
    rows_read: list[tuple[int, str]] = []
    cursor = None
    while True:
        page = listing(cursor, limit=limit).page_of_all(rows, key=lambda row: row)
        rows_read += page.rows
        assert page.more == len(rows) - len(rows_read)
        if page.next is None:
            break
        cursor = page.next
    assert rows_read == sorted(rows)


@given(rows=ROWS.filter(lambda rows: len(rows) > 3))
def test_new_rows_before_the_cursor_do_not_shift_pages(rows: list[tuple[int, str]]) -> None:
    first = listing().page_of_all(rows, key=lambda row: row)
    earlier = [*rows, (-1, "new")]
    second = listing(first.next).page_of_all(earlier, key=lambda row: row)
    assert second.rows == tuple(sorted(rows)[3:6])


CHECKSUM = json.loads(base64.urlsafe_b64decode(listing().cursor_after((7,)) + "=="))[0]


def forged(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@given(st.text(max_size=60))
def test_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a cursor of this list"):
        listing(text).after(int)


def test_forged_cursor_is_refused(subtests: pytest.Subtests) -> None:
    for cursor in [
        forged("00000000", 7),
        forged(CHECKSUM, "7"),
        forged(CHECKSUM, *[True]),
        forged(CHECKSUM, 2**70),
        forged(CHECKSUM, 7, 8),
        forged({"a": 1}),
        forged(*"a" * 100),
        "A" * 5000,
    ]:
        with (
            subtests.test(cursor=cursor),
            pytest.raises(InvalidInputError, match="not a cursor of this list"),
        ):
            listing(cursor).after(int)


def test_cursor_is_valid_only_for_its_list_and_filters() -> None:
    cursor = listing(agent="ann").cursor_after((7,))
    assert listing(cursor, agent="ann", project=None).after(int) == (7,)
    for other in (listing(cursor), listing(cursor, agent="bob")):
        with pytest.raises(InvalidInputError, match="with these filters"):
            other.after(int)
    with pytest.raises(InvalidInputError):
        Listing(name="names", limit=3, cursor=cursor, filters={"agent": "ann"}).after(int)


def test_limit_of_a_list_has_bounds() -> None:
    assert listing(limit=5).checked(5).limit == 5
    for limit in (0, -1, 6):
        with pytest.raises(RejectedError, match="1 to 5 is allowed"):
            listing(limit=limit).checked(5)


def test_bounded_count_is_shown_with_a_plus_sign() -> None:
    assert (count_text(12), count_text(1000)) == ("12", "1,000+")
    assert more_line(12, "abc") == ("12 more: --cursor abc",)
    assert more_line(0, None) == ()
