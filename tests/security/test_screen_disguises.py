"""Keys that are hidden in other tokens, over lines and behind characters that no reader sees."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model import ids
from commonbrain.security.folding import folded, joined_lines, origin
from commonbrain.security.secret_values import redacted
from commonbrain.security.secrets import FORMATS, SecretScanner
from tests.secrets import INNOCENT, SECRETS
from tests.security.test_screen import grows_linearly

SCREEN = SecretScanner()
KEYS: Final = {
    name: secret
    for name, (_, secret) in SECRETS.items()
    if "\n" not in secret
    and [one.sort for one in SCREEN.find(secret) if one.is_certain and one.sort in FORMATS]
}
"""Secrets that are recognized by their form alone."""


def _cut(key: str, places: int, gap: str) -> str:
    """Put the gap into a key at places that are equally far apart."""
    step = max(len(key) // (places + 1), 1)
    return gap.join(key[at : at + step] for at in range(0, len(key), step))


def _full_width(key: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in key)


def _mathematical(key: str) -> str:
    """Write its letters in the mathematical monospace of Unicode."""
    shifts = (("A", "Z", 0x1D670), ("a", "z", 0x1D68A), ("0", "9", 0x1D7F6))
    moved = {
        chr(c): chr(base + c - ord(first))
        for first, last, base in shifts
        for c in range(ord(first), ord(last) + 1)
    }
    return "".join(moved.get(c, c) for c in key)


DISGUISES: Final[Mapping[str, Callable[[str], str]]] = {
    "none": lambda key: key,
    "in a token": lambda key: f"prefix_{key}_suffix",
    "after underscore": lambda key: f"KEY_{key}",
    "before underscore": lambda key: f"{key}_old",
    "after hyphen": lambda key: f"backup-{key}",
    "newline": lambda key: _cut(key, 1, "\n"),
    "newlines and indents": lambda key: _cut(key, 2, "\r\n    "),
    "continued lines": lambda key: _cut(key, 1, " \\\n"),
    "quoted lines": lambda key: _cut(key, 1, "\n> "),
    "line in prose": lambda key: f"with {_cut(key, 1, chr(10))}\nthen it works",
    "line separator": lambda key: _cut(key, 1, "\u2028"),
    "prefix in a line": lambda key: f"{key[:2]}\n{key[2:]}",
    "soft hyphens": lambda key: _cut(key, 4, "\u00ad"),
    "zero-width spaces": "\u200b".join,
    "zero-width joiners": lambda key: _cut(key, 3, "\u200d"),
    "byte order mark": lambda key: _cut(key, 1, "\ufeff"),
    "variation selectors": lambda key: _cut(key, 3, "\ufe0f"),
    "tag characters": lambda key: _cut(key, 2, "\U000e0041"),
    "full width": _full_width,
    "half in full width": lambda key: key[: len(key) // 2] + _full_width(key[len(key) // 2 :]),
    "mathematical": _mathematical,
    "percent, all": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "percent, signs": lambda key: "".join(c if c.isalnum() else f"%{ord(c):02x}" for c in key),
    "percent, twice": lambda key: quote("".join(f"%{ord(c):02X}" for c in key)),
    "percent, newline": lambda key: _cut(key, 1, "%0A"),
    "percent, zero width": lambda key: _cut(key, 1, quote("\u200b")),
    "all at once": lambda key: f"a_{_cut(_full_width(key), 2, chr(0x200B) + chr(10))}_b",
}


def _plain(text: str) -> str:
    """Reduce a text to what a reader of a hidden key would put together again."""
    steps = folded(text)
    return re.sub(r"[\s>\\]", "", steps[-1].text if steps else text)


def _missed(disguise: Callable[[str], str]) -> list[str]:
    """List the keys that are not found in a disguise, or of which redaction leaves a part."""
    missed: list[str] = []
    for name, key in KEYS.items():
        text = f"We call it with {disguise(key)} since May."
        clean = text
        for _ in range(3):
            clean = redacted(clean, SCREEN.find(clean))
        is_rest_unchanged = clean.startswith("We call it with ") and clean.endswith(" since May.")
        secret = _plain(key)
        parts = {secret[at : at + 12] for at in range(len(secret) - 11)}
        if clean == text or not is_rest_unchanged or any(part in _plain(clean) for part in parts):
            missed.append(name)
    return missed


@pytest.mark.requirement("ST-11")
def test_key_is_found_and_redacted_in_each_disguise(subtests: pytest.Subtests) -> None:
    for disguise in DISGUISES:
        with subtests.test(disguise=disguise):
            assert _missed(DISGUISES[disguise]) == []


def test_numbers_of_secret_kinds_and_disguises_are_as_expected() -> None:
    kinds = Counter(one.sort for key in KEYS.values() for one in SCREEN.find(key))
    assert (len(kinds), len(KEYS), len(DISGUISES)) == (24, 34, 27)


INNOCENT_IDS: Final = (
    "Commit 2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d fixed it",
    "2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d\n7a9b8c7d2fc01319f7b1c0a84ddc2b1d6a5c3f1e",
    "backup_2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d_old",
    "550e8400-e29b-41d4-a716-446655440000\n550e8400-e29b-41d4-a716-446655440001",
    "run_550e8400-e29b-41d4-a716-446655440000_2",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "hash = 'sha256:9f86d081884c7d659a2feaa0c55ad015\n  a3bf4f1b2b0b822cd15d6c15b0f00a08'",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV\n01BX5ZZKBKACTAV9WEVGEMMVRZ",
    "order_01ARZ3NDEKTSV4RRFFQ69G5FAV_2",
    f"See {ids.show(ids.MEMORY, 2**60)},\n{ids.show(ids.MEMORY, 2**60 + 1)}",
    "The branch task-management-system-version-2 is\nrisk-assessment-tool-release-candidate-10",
    "Use disk-sk-learn-compatible-estimators-2\nand desk-sk-models-for-classification-3",
    "https://example.org/a%20b%2Fc%3Fpage%3D2%26lang%3Dde",
    "The password%3A see the vault",
    "The area is 20 m² and the load 3 kN/m², № 5",
    "密码\uff1a请使用十二位以上的字母和数字\uff0c例如八位数字加四个字母2026",
    "The family 👩\u200d👩\u200d👧 is here ❤\ufe0f since 2019",
    "A soft\u00adhyphen\u00adated word and a zero\u200bwidth space in version 2",
    "Use the prefixes ghp_\ngho_ and ghs_\nfor tokens of 40 characters",
    "On Tuesday ASIA\nPACIFICREGIONSALES met",
)


def test_hash_id_and_prose_are_not_flagged(subtests: pytest.Subtests) -> None:
    for text in [*INNOCENT_IDS, *INNOCENT, "\n".join(INNOCENT)]:
        with subtests.test(text=text):
            assert [one for one in SCREEN.find(text) if one.is_certain] == []


def test_lock_files_and_documentation_contain_no_hidden_secret(subtests: pytest.Subtests) -> None:
    for suffix in ["md", "lock"]:
        with subtests.test(suffix=suffix):
            root = Path(__file__).parents[2]
            files = [*root.glob(f"*.{suffix}"), *root.glob(f"docs/**/*.{suffix}")]
            assert files
            # What the patterns find as it stands is an example that a page shows.
            for file in files:
                text = file.read_text(encoding="utf-8")
                certain_secrets = {
                    text[one.start : one.end] for one in SCREEN.find(text) if one.is_certain
                }
                assert not any(one.splitlines()[1:] for one in certain_secrets), file


PIECES = st.sampled_from(
    ["a", "7", "\u200b", "\n", " ", "%41", "%0A", "\uff41", "\u00ad", "é", "%"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_each_character_of_a_folded_text_is_found_in_the_original(text: str) -> None:
    steps = folded(text)
    last = steps[-1].text if steps else text
    spans = [origin(steps, at, end=at + 1) for at in range(len(last))]
    ends = [0, *(end for _, end in spans)]
    assert all(
        end <= start < stop <= len(text) for end, (start, stop) in zip(ends, spans, strict=False)
    )
    plain = [text[start:stop] for start, stop in spans]
    assert all(
        one == at or len(one) > 1 or not one.isascii() for one, at in zip(plain, last, strict=True)
    )


@given(st.lists(PIECES, max_size=60).map("".join))
def test_joined_lines_map_every_character_to_the_text(text: str) -> None:
    for window in joined_lines(text):
        for at, one in enumerate(window.text):
            start, end = window.span(at, at + 1)
            assert text[start:end] == one


def test_scan_time_grows_linearly_with_hidden_text(subtests: pytest.Subtests) -> None:
    for piece in [
        *("%41", "%25", "%2525", "a\u200b", "\uff41", "sk-a1\n", "a1\n", "1\n", "eyJ\n", ".eyJ"),
        *("eyJa.eyJ", "gho_a1", "sk-1 \n", " \n", "password%3D1"),
    ]:
        with subtests.test(piece=piece):
            assert grows_linearly(piece)
