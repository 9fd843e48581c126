from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.security.secret_values import SecretMatch, describe_place, redacted
from commonbrain.security.secrets import FORMATS, SUBSTRINGS, SecretScanner
from tests.secrets import INNOCENT, SECRETS, made_up

SCREEN = SecretScanner()


def certain(text: str) -> list[SecretMatch]:
    return [one for one in SCREEN.find(text) if one.is_certain]


def grows_linearly(piece: str) -> bool:
    """Whether a scan of four times the text takes about four times as long, and not sixteen times.

    Other programs may disturb a measurement, so it is repeated.
    """
    return any(scan_s(piece, 40_000) <= 8 * scan_s(piece, 10_000) for _ in range(5))


def scan_s(piece: str, length: int) -> float:
    """Measure the processor time of a scan of a piece over and over."""
    text = piece * (length // len(piece))
    since = process_time()
    SCREEN.find(text)
    return process_time() - since


@pytest.mark.requirement("ST-11")
def test_secret_is_found_and_redacted_completely(subtests: pytest.Subtests) -> None:
    for name in SECRETS:
        with subtests.test(name=name):
            text, secret = SECRETS[name]
            matches = certain(text)
            assert len(matches) == 1, matches
            clean = redacted(text, matches)
            assert secret not in clean
            # Of a block of many lines none is left either.
            assert not any(line in clean for line in secret.split("\n") if len(line) > 20)
            assert certain(clean) == []


def test_secrets_within_a_log_are_found() -> None:
    log = "\n".join(f"12:0{n % 10} INFO {text}" for n, (text, _) in enumerate(SECRETS.values()))
    clean = redacted(log, SCREEN.find(log))
    assert [name for name, (_, secret) in SECRETS.items() if secret in clean] == []


def test_text_about_secrets_is_not_flagged(subtests: pytest.Subtests) -> None:
    for text in INNOCENT:
        with subtests.test(text=text):
            assert certain(text) == []


def test_there_are_at_least_40_examples_of_secrets_and_of_innocent_texts() -> None:
    assert min(len(SECRETS), len(INNOCENT)) >= 40


def test_commit_hash_and_uuid_raise_no_warning() -> None:
    hash_ = "2fc01319f7b1c0a84ddc2b1d6a5c3f1e7a9b8c7d"
    assert SCREEN.find(f"{hash_} 550e8400-e29b-41d4-a716-446655440000") == []


def test_random_text_without_a_name_raises_only_a_warning() -> None:
    [match] = SCREEN.find(f"The value {made_up(60)} came up.")
    assert not match.is_certain


@given(st.text(), st.sampled_from(sorted(SECRETS)), st.text())
def test_matches_do_not_overlap_and_lie_within_the_text(before: str, name: str, after: str) -> None:
    text = f"{before} {SECRETS[name][0]} {after}"
    matches = SCREEN.find(text)
    ends = [0, *(one.end for one in matches)]
    assert all(
        end <= one.start < one.end <= len(text) for end, one in zip(ends, matches, strict=False)
    )


@given(st.text(), st.sampled_from(sorted(SECRETS)))
def test_kind_of_a_secret_never_contains_the_secret(before: str, name: str) -> None:
    text, secret = SECRETS[name]
    assert all(secret not in one.sort for one in SCREEN.find(before + "\n" + text))


def test_scan_time_grows_linearly_with_hostile_text(subtests: pytest.Subtests) -> None:
    for piece in [
        *("eyJ", "//", "://a:", "sk-a", "password=", "password ", "a", "xoxb-1-", "Aa1/"),
        *("token:", "key " + " " * 50, "-", "bearer ", "AKIA", "-----BEGIN PRIVATE KEY-----\n"),
        *(
            "password of ",
            "login is a / ",
            "code for the gate ",
            "passphrase is ",
            "a as password ",
        ),
        *("密码是", "curl -u ", "--password ", "docker login ", "x-token: ", "echo a | "),
    ]:
        with subtests.test(piece=piece):
            assert grows_linearly(piece)


def test_place_of_a_match_is_given_as_line_and_column() -> None:
    assert describe_place("one\ntwo three", 8) == "line 2, column 5"
    assert describe_place("one", 0) == "line 1, column 1"


@pytest.mark.parametrize("sort", SUBSTRINGS)
@given(data=st.data())
def test_every_match_of_a_secret_format_contains_one_of_its_substrings(
    sort: str, data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(FORMATS[sort]))
    assert any(one in text for one in SUBSTRINGS[sort])
