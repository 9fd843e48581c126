"""Detection of secrets in text, by known formats, assignments and entropy."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.scope import OnSecret
from commonbrain.model.values import dataclass, replace
from commonbrain.security.credentials import find_credentials
from commonbrain.security.folding import FoldedText, folded, joined_lines, origin
from commonbrain.security.secret_values import PLACEHOLDER, SecretMatch, describe_place, redacted
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.private_parts import without_private

PASSES_MAX: Final = 3
"""Removing one secret can uncover another that overlapped it."""
PATTERNS_VERSION: Final = 4
"""Raised with every change of what is found; `brain doctor` advises a scan of what is stored."""
FORMATS: Final = {
    "private key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]|-(?!----)){0,16000}(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
    "Commonbrain key": r"(?<![A-Za-z0-9])cb_[a-z0-9_-]{1,63}_[0-9a-f]{8}_[0-9a-f]{48}(?![0-9a-f])",
    "Commonbrain session": r"(?<![A-Za-z0-9])cbs_[a-z0-9_-]{1,63}_[\w-]{43}(?![\w-])",
    "Anthropic key": r"(?<![\w-])sk-ant-[\w-]{20,200}",
    "OpenAI key": r"(?<![\w-])sk-(?:proj-|svcacct-|admin-|or-v1-)?[\w-]{20,250}",
    "AWS access key id": r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "Google API key": r"(?<![\w-])AIza[\w-]{35}(?![\w-])",
    "Google OAuth secret": r"(?<![\w-])GOCSPX-[\w-]{28}(?![\w-])",
    "Google access token": r"(?<![\w.-])ya29\.[\w-]{20,500}",
    "GitHub token": r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{60,255})",
    "GitLab token": r"(?<![\w-])gl(?:pat|ptt|dt|rt|ft|soat|oas|cbt|imt|agent)-[\w-]{20,300}",
    "Slack token": r"(?<![\w-])xox[abeoprs]-[\w-]{10,300}|(?<![\w-])xapp-\d-[\w-]{10,300}",
    "Slack webhook": r"https://hooks\.slack\.com/(?:services|workflows)/[\w/+]{20,200}",
    "Stripe key": r"(?<![\w-])(?:(?:sk|rk)_(?:live|test)|whsec)_[A-Za-z0-9]{16,250}",
    "npm token": r"(?<![\w-])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
    "PyPI token": r"(?<![\w-])pypi-AgE[\w-]{40,500}",
    "SendGrid key": r"(?<![\w-])SG\.[\w-]{22}\.[\w-]{43}(?![\w-])",
    "Twilio key": r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])",
    "Hugging Face token": r"(?<![\w-])hf_[A-Za-z0-9]{30,60}(?![A-Za-z0-9])",
    "Docker token": r"(?<![\w-])dckr_(?:pat|oat)_[\w-]{20,100}",
    "DigitalOcean token": r"(?<![\w-])do[opr]_v1_[0-9a-f]{64}",
    "Databricks token": r"(?<![\w-])dapi[0-9a-f]{32}(?![A-Za-z0-9])",
    "Telegram bot token": r"(?<![\w:])\d{8,10}:AA[\w-]{33}(?![\w-])",
    "Discord token": r"(?<![\w.-])[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])",
    "Azure storage key": r"(?<=AccountKey=)[A-Za-z0-9+/]{86}==",
    "age key": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    "JSON web token": r"(?<![\w.-])eyJ[\w-]{8,4000}\.eyJ[\w-]{4,8000}\.[\w-]{0,2000}",
    "bearer token": r"(?i:(?<![\w-])(?:bearer|basic)[ ]{1,3})(?P<bearer>[\w.~+/-]{20,2000}={0,2})",
    "password in an address": r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
    r"(?P<user>[^\s:/?#@\[\]]{0,64}):(?P<address>[^\s/@\[\]]{2,200})@",
}
# A substring search costs a hundredth of a regular expression, and almost no text contains any of
# these; a format without an entry is matched against every text.
SUBSTRINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "Commonbrain key": ("cb_",),
    "Commonbrain session": ("cbs_",),
    "Anthropic key": ("sk-ant-",),
    "OpenAI key": ("sk-",),
    "AWS access key id": ("AKIA", "ASIA", "ABIA", "ACCA"),
    "Google API key": ("AIza",),
    "Google OAuth secret": ("GOCSPX-",),
    "Google access token": ("ya29.",),
    "GitHub token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GitLab token": tuple(f"gl{one}-" for one in "pat ptt dt rt ft soat oas cbt imt agent".split()),
    "Slack token": ("xox", "xapp-"),
    "Slack webhook": ("hooks.slack.com",),
    "Stripe key": ("_live_", "_test_", "whsec_"),
    "npm token": ("npm_",),
    "PyPI token": ("pypi-AgE",),
    "SendGrid key": ("SG.",),
    "Twilio key": ("SK",),
    "Hugging Face token": ("hf_",),
    "Docker token": ("dckr_",),
    "DigitalOcean token": ("_v1_",),
    "Databricks token": ("dapi",),
    "Telegram bot token": (":AA",),
    "Azure storage key": ("AccountKey=",),
    "JSON web token": (".eyJ",),
    "password in an address": ("://",),
}
"""Substrings one of which occurs in every match of the format."""
_WHOLE: Final = frozenset({"private key", "bearer token", "password in an address"})
"""Formats of several words or without a prefix: these are not searched inside of other tokens."""
_DISTINCT: Final = frozenset(
    {"Commonbrain key", "Commonbrain session", "GitHub token", "GitLab token", "npm token"}
    | {"PyPI token", "Stripe key", "Docker token", "DigitalOcean token", "Hugging Face token"}
)
"""Formats whose prefix ends no word, so that they are searched after a letter, too."""
_BORDERS: Final = lazy_pattern(r"\(\?<?!\[[^\]]*\]\)")
"""The conditions of a format on the characters around it."""
_WORDS: Final = lazy_pattern(r"[A-Z]?[a-z]{3,}")
_WORDS_SHARE_MAX: Final = 0.6
"""Random text of both cases is words by at most this share, names in code by more."""
_DIGITS_SHARE_MIN: Final = 0.08
"""Random text of one case has at least this share of digits: a third of what is expected."""
_PLAIN_TAIL: Final = lazy_pattern(r"[A-Z]?[a-z]*(?:[-_.:/][A-Z]?[a-z]*)*|[A-Z]+|[0-9T.:_/-]+")
"""The begin of a line that does not continue a key: words, a number, a date or a time."""
_RANDOM_RUN: Final = lazy_pattern(r"(?<![\w+/=.:-])[A-Za-z0-9+/_-]{32,256}={0,2}(?![\w+/=-])")
_UUID: Final = lazy_pattern(r"[0-9a-fA-F-]+")
_BITS_MIN: Final = 4.5
"""Bits per character from which base64 likely random (the limit of detect-secrets)."""
_DISTINCT_MIN: Final = 8
"""Fewer distinct characters of a known format are a placeholder such as xxxx."""


class _Embedded(NamedTuple):
    anywhere: re.Pattern[str]
    after_break: re.Pattern[str]
    """Without a condition on the character before, which is on another line."""


class _Format(NamedTuple):
    sort: str
    substrings: Sequence[str]
    pattern: re.Pattern[str]
    embedded: _Embedded | None
    """Patterns of a value inside of another token; None if it has to be whole."""


def _embedded_pattern(sort: str, pattern: str) -> _Embedded:
    bare = _BORDERS.sub("", pattern)
    before = "" if sort in _DISTINCT else r"(?<![A-Za-z0-9])"
    return _Embedded(lazy_pattern(f"{before}(?:{bare})"), lazy_pattern(bare))


@dataclass(frozen=True)
class SecretScanner:
    """Finds secrets with the patterns above, before a text is processed; thread-safe.

    Laws: the result depends on the text alone; matches are in order and do not overlap; a redacted
    text holds no certain secret; time is linear in the length of the text.
    """

    @cached_property
    def formats(self) -> tuple[_Format, ...]:
        """The compiled formats; compiled on first use, to keep startup fast."""
        return tuple(
            _Format(
                sort,
                SUBSTRINGS.get(sort, ("",)),
                lazy_pattern(pattern),
                None if sort in _WHOLE else _embedded_pattern(sort, pattern),
            )
            for sort, pattern in FORMATS.items()
        )

    def find(self, text: str) -> list[SecretMatch]:
        """Return matches of certain and likely secrets; of overlapping matches the first wins.

        Keys are also found inside of another token, broken over lines, and behind percent escapes,
        invisible characters and compatibility forms such as full-width letters.
        """
        certain = _first_of_overlapping([*self._certain(text), *self._hidden(text)])
        likely = _without_overlap(certain, _random(text))
        return sorted([*certain, *likely], key=lambda one: one.start)

    def clean(self, text: str, *, what: str, on_secret: OnSecret) -> str:
        """Return a text without secrets and private parts; `what` names it in errors.

        Raises:
            InvalidInputError: it is longer than any stored text.
            RejectedError: `secret_detected`, and the secret cannot or must not be redacted.

        """
        if len(text) > TEXT_BYTES_MAX:
            # Reject before reading: the work must be bounded by what is allowed.
            raise InvalidInputError(
                f"The {what} has {len(text):,} characters, more than any text that is kept.",
                hint="Give a sentence; remember a long text as a memory of its own.",
            )
        text = without_private(text)
        matches = self.find(text)
        passes = PASSES_MAX if on_secret is OnSecret.REDACT else 0
        while passes and any(one.is_certain for one in matches):
            text = redacted(text, matches)
            matches = self.find(text)
            passes -= 1
        certain = [describe_secret(one, text, what=what) for one in matches if one.is_certain]
        if certain:
            raise secret_error(certain)
        return text

    def _certain(self, text: str) -> Iterator[SecretMatch]:
        yield from self._formatted(text)
        yield from find_credentials(text)
        for window in joined_lines(text):
            yield from self._broken(window)

    def _hidden(self, text: str) -> Iterator[SecretMatch]:
        """Find secrets in a text that is not what it looks like."""
        steps = folded(text)
        for one in self._certain(steps[-1].text) if steps else ():
            # Prose of other scripts has full-width colons and no spaces.
            if steps[-1].text[one.start : one.end].isascii():
                start, end = origin(steps, one.start, end=one.end)
                yield replace(one, start=start, end=end)

    def _formatted(self, text: str) -> Iterator[SecretMatch]:
        for one in self.formats:
            if not _contains_any(text, one.substrings):
                continue
            for match in one.pattern.finditer(text):
                start, end = match.span(match.lastgroup or 0)
                # A local database often has the password postgres for the user postgres.
                is_default = text[start:end] == match.groupdict().get("user")
                if not is_default and not _is_placeholder(text[start:end], one.sort):
                    yield SecretMatch(sort=one.sort, start=start, end=end)
            for start, end in _embedded(text, one, breaks=()):
                yield SecretMatch(sort=one.sort, start=start, end=end)

    def _broken(self, window: FoldedText) -> Iterator[SecretMatch]:
        """Find keys that continue on the next line."""
        text = window.text
        for one in self.formats:
            if not _contains_any(text, one.substrings):
                continue
            for start, end in _embedded(text, one, breaks=window.at):
                # Others are found without joining lines.
                if any(start < place < end for place in window.at):
                    first, last = window.span(start, end)
                    yield SecretMatch(sort=one.sort, start=first, end=last)


def _embedded(text: str, one: _Format, *, breaks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Find generated values inside of other tokens; `breaks` are borders of values, too."""
    if one.embedded is None:
        return
    after_breaks = (one.embedded.after_break.match(text, place) for place in breaks)
    for match in chain(one.embedded.anywhere.finditer(text), after_breaks):
        if match is None:
            continue
        start, end = match.span()
        after = text[end : end + 1]
        if end not in breaks and after.isascii() and after.isalnum():
            continue
        end = _without_next_line(
            text, one.embedded.after_break, breaks=breaks, start=start, end=end
        )
        value = text[start:end]
        if _is_generated(value, one.sort) and not _is_placeholder(value, one.sort):
            yield start, end


def _without_next_line(
    text: str, pattern: re.Pattern[str], *, breaks: Sequence[int], start: int, end: int
) -> int:
    """Return the end of a key without the words of a next line that only follow it."""
    for place in reversed(breaks):
        if not start < place < end:
            continue
        if not (_PLAIN_TAIL.fullmatch(text, place, end) and pattern.fullmatch(text, start, place)):
            break
        end = place
    return end


def _is_generated(value: str, sort: str) -> bool:
    """Whether a value is random letters and digits, not a name of words."""
    digits = sum(c.isdigit() for c in value)
    if not digits or sort in _DISTINCT or digits >= _DIGITS_SHARE_MIN * len(value):
        return digits > 0
    return sum(len(word) for word in _WORDS.findall(value)) <= _WORDS_SHARE_MAX * len(value)


def _contains_any(text: str, substrings: Sequence[str]) -> bool:
    for sign in substrings:  # noqa: SIM110 any() would take twice as long, and this is asked very often
        if sign in text:
            return True
    return False


def _is_placeholder(value: str, sort: str) -> bool:
    """Whether the value is an example; a key block is one if it is too short."""
    if sort == "private key":
        return len(value) < 2 * len("-----BEGIN PRIVATE KEY-----")
    if sort == "password in an address":
        return bool(PLACEHOLDER.search(value)) or value.lower() in {"pass", "pw", "pwd", "secret"}
    if sort in {"bearer token", "OpenAI key"} and not re.search(r"\d", value):
        # "Bearer authentication-required" and "sk-learn-compatible-estimator" are words.
        return True
    is_example = re.search(r"example|xxxx|your|placeholder|\.\.\.", value, re.IGNORECASE)
    return len(set(value)) < _DISTINCT_MIN or is_example is not None


def _random(text: str) -> Iterator[SecretMatch]:
    """Find random-looking runs; hashes and ids match too, so these are only a hint."""
    for match in _RANDOM_RUN.finditer(text):
        run = match[0]
        if _UUID.fullmatch(run) or "/" in run[:1] or not _is_mixed(run):
            continue
        if _bits(run) >= _BITS_MIN:
            yield SecretMatch(
                sort="random text", start=match.start(), end=match.end(), is_certain=False
            )


def _is_mixed(run: str) -> bool:
    return all(any(test(c) for c in run) for test in (str.isdigit, str.isupper, str.islower))


def _bits(run: str) -> float:
    """Return Shannon's entropy of a run, in bits per character."""
    total = len(run)
    return -sum(n / total * math.log2(n / total) for n in Counter(run).values())


def _first_of_overlapping(matches: Iterable[SecretMatch]) -> list[SecretMatch]:
    """Of overlapping matches keep the first and longest, in text order."""
    result: list[SecretMatch] = []
    for one in sorted(matches, key=lambda one: (one.start, -one.end)):
        if not result or one.start >= result[-1].end:
            result.append(one)
    return result


def _without_overlap(
    certain: Sequence[SecretMatch], likely: Iterable[SecretMatch]
) -> list[SecretMatch]:
    """Drop likely secrets that overlap a certain one."""
    starts = [one.start for one in certain]

    def is_free(one: SecretMatch) -> bool:
        place = bisect_left(starts, one.end)
        return place == 0 or certain[place - 1].end <= one.start

    return [one for one in likely if is_free(one)]


def describe_secret(match: SecretMatch, text: str, *, what: str) -> str:
    """Return type and position of a secret, never the secret itself."""
    return f"{match.sort} in the {what}, {describe_place(text, match.start)}"


def secret_error(certain: Sequence[str]) -> RejectedError:
    """Return the error of a text that contains these secrets."""
    more = f" and {len(certain) - 1} more" if len(certain) > 1 else ""
    return RejectedError(
        f"This holds a secret: {certain[0]}{more}.",
        code="secret_detected",
        hint="Leave the value out; say where it is kept. If an example looks like a secret, "
        "put a placeholder such as <token> in its place.",
    )
