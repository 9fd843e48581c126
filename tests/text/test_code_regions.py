"""Cited code is found again after an edit."""

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.citations import CodePlace, parse_place, places_in
from commonbrain.text.code_regions import Region, SourceText

PYTHON: Final = '''import os

LIMIT = 3


class Cart:
    @property
    def total(self) -> int:
        """Add up."""
        return sum(
            one.price for one in self.items
        )


def total(items):
    return 0
'''


def source(text: str, *, is_python: bool = False) -> SourceText:
    return SourceText(text, is_python=is_python)


def test_symbols_are_found_with_all_their_lines() -> None:
    text = source(PYTHON, is_python=True)
    assert list(text.definitions("Cart.total")) == [Region(line=8, lines=5)]
    assert list(text.definitions("total")) == [Region(line=15, lines=2), Region(line=8, lines=5)]
    assert list(text.definitions("LIMIT")) == [Region(line=3, lines=1)]
    assert not list(text.definitions("os"))


def test_definitions_and_calls_are_distinguished() -> None:
    for text, name, expected in [
        ("func (w *Worker) Run(ctx context.Context) error {\n\treturn nil\n}\n", "Run", (1, 3)),
        ("x := w.Run(ctx)\n", "Run", None),
        ("    return Run(a) {\n", "Run", None),
        ("    public int size() {\n        return 1;\n    }\n", "size", (1, 3)),
        ("    size();\n", "size", None),
        ("    int n = size();\n", "size", None),
        ("pub fn new(\n    a: u8,\n) -> Self {\n    Self { a }\n}\n", "new", (1, 5)),
        ("export const LIMIT = 3;\n", "LIMIT", (1, 1)),
        ("type Pair struct {\n\tA int\n}\n\ntype Other struct{}\n", "Pair", (1, 3)),
        ("interface Level {\n}\n", "Level", (1, 2)),
        ("  # see Level\n", "Level", None),
    ]:
        regions = [(one.line, one.lines) for one in source(text).definitions(name)]
        assert regions == ([expected] if expected else []), text


def test_what_formatters_change_is_the_same_code() -> None:
    before = "call(a, 'b', {x: 1})\n"
    seen = source(before).fingerprint(Region(line=1, lines=1))
    assert seen is not None
    wrapped = 'call(\n    a,\n    "b",\n    {x: 1},\n);\n'
    assert source(wrapped).find(seen) == 1
    # What follows on its last line belongs to it, and blanks in a text are part of it.
    assert source("call(a, 'b', {x: 1}).then(f)\n").find(seen) is None
    assert source("call(a, ' b', {x: 1})\n").find(seen) is None


LINES: Final = st.lists(
    st.sampled_from(
        ["", "}", "return None", "x = 1", "if ready:", "    start(x)", "# a note", "def go(x):"]
    ),
    max_size=12,
)


@given(above=LINES, below=LINES, insert_above=LINES, insert_below=LINES)
def test_an_edit_of_other_lines_leaves_code_the_same_or_moved_to_its_line(
    above: list[str], below: list[str], insert_above: list[str], insert_below: list[str]
) -> None:
    cited = ["rate = load_rate(country, at=day)", "charge(order.total * rate, card=order.card)"]
    line = len(above) + 1
    seen = source("\n".join([*above, *cited, *below])).fingerprint(Region(line=line, lines=2))
    assert seen is not None

    edited = source("\n".join([*insert_above, *above, *cited, *below, *insert_below]))

    assert edited.find(seen) == line + len(insert_above)


@given(st.text(max_size=300), st.text(alphabet="abXY_.", min_size=1, max_size=8))
def test_any_text_can_be_cited_and_searched(text: str, symbol: str) -> None:
    for is_python in (False, True):
        some = source(text, is_python=is_python)
        regions = list(some.definitions(symbol))
        regions.append(Region(line=1, lines=len(some.lines)))
        for region in regions:
            seen = some.fingerprint(region)
            if seen is not None:
                assert some.has_at(seen, region.line, lines=region.lines)
                some.find(seen)
                some.find_changed(seen)


def test_a_file_made_to_take_long_takes_no_longer_than_its_size() -> None:
    seen = source(PYTHON).fingerprint(Region(line=8, lines=5))
    assert seen is not None
    for text in (
        "(" * 200_000,
        "a " * 200_000,
        "'" * 200_000,
        '\\"' * 100_000,
        "def \n" * 50_000,
        "\n" * 300_000,
    ):
        assert source(text).find(seen) is None
        assert not list(source(text, is_python=True).definitions("total"))


def test_places_are_parsed_as_they_are_written() -> None:
    for text in ("src/pay.py:40", "src/pay.py:40-52", "web/cart.ts#Cart.add", "Makefile:3"):
        assert str(parse_place(text)) == text
    for text in ("src/pay.py", "../x.py:1", "a/../b.py:2", "pay.py:0", "pay.py:9-3", "x y.py:3"):
        assert parse_place(text) is None
    named = list(places_in("See (src/pay.py:40), `web/cart.ts:3-5`, http://a:80/ and v1.2#x."))
    assert named[:2] == [
        CodePlace(path="src/pay.py", line=40),
        CodePlace(path="web/cart.ts", line=3, end=5),
    ]
    assert not [one for one in named if re.search("http|v1", one.path)]
