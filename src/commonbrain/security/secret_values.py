"""Detected secrets, and the shapes of credentials' values, by which a word is one or not."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMatch:
    """A span of a text that is a secret, or looks like one."""

    sort: str
    """The type in words, such as "GitHub token"; never a part of the secret."""
    start: int
    end: int
    is_certain: bool = True
    """Whether it is removed or rejected; random-looking text only causes a warning."""


def describe_place(text: str, position: int) -> str:
    """Return a position as "line L, column C", both counted from 1."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"


def redacted(text: str, matches: Iterable[SecretMatch]) -> str:
    """Replace every certain secret by its type."""
    parts: list[str] = []
    done = 0
    for one in sorted(matches, key=lambda one: one.start):
        if one.is_certain and one.end > done:
            parts += [text[done : max(one.start, done)], f"[redacted: {one.sort}]"]
            done = one.end
    return "".join([*parts, text[done:]])


PLACEHOLDER: Final = lazy_pattern(
    r"^[/~.$%]|^https?:|[{(\[<]|\*\*|%\w+%|your|my[_-]|example|sample|dummy|placeholder|redacted"
    r"|change[_-]?(?:me|it)|replace"
    r"|xxx|\.{3}|…|\bnone\b|\bnull\b|\bundefined\b|\btrue\b|\bfalse\b|required|optional|process\.env"
    r"|environ|getenv|secrets?\.|config\.|settings\.|vault|env\.|^pass(?:word|wd)?$|^secret$|^token$"
    r"|^test$|^user:?$|todo|fake|hidden|masked|expired?|rotated?",
    re.IGNORECASE,
)
"""What examples and templates have in place of a value, or say about it."""
_TERM: Final = lazy_pattern(
    r"(?:md5|sha-?\d+|argon2\w*|base\d+[\w-]*|bcrypt\d*|scrypt|pbkdf2|oauth2?[\w.]*"
    r"|utf-?8|[hre]s\d{3}|x?chacha20[\w-]*|aes[-_]?[\w-]*|age1\w+"
    r"|ed25519|x509|k8s|auth0|saml2?|fido2|webauthn|log4j\d?|(?:rfc|iso|fips|pkcs|ipv|wpa|rsa|win|windows"
    r"|python|office|v|version|tls|ssl|http|level|step|phase|type)[-_#]?\d[\w.-]*)\W{0,2}",
    re.IGNORECASE,
)
"""Technical terms with a digit that plain prose has after the same nouns."""
_NO_VALUE: Final = lazy_pattern(
    r"v?\d[\d.:,_-]*[a-z]{0,3}|\d+-[a-z]+(?:-[a-z]+)*|(?-i:[A-Z]{2,10})-\d{1,6}|[a-z]{2}-[a-z]+-\d"
    r"|\S+@\S+\.\w+|[\w.-]+\.[a-z]{2,4}|\S*[/\\(){}|]\S*|[$%@#:~=-]\S*"
    r"|(?:ctrl|alt|cmd|shift)\+\S*|\w+=\S*|\S*:",
    re.ASCII | re.IGNORECASE,
)
"""A version, date, time or amount, a ticket, a region, an address, a file, a path, a variable."""
SIGNS: Final = frozenset("!@#$%^&*+=?~")
PASSWORD_CHARS_MIN: Final = 5
_ADJACENT_CHARS_MIN: Final = 7
_DISTINCT_MIN: Final = 4
"""Fewer distinct characters are a placeholder such as xxxx."""


def is_strong(value: str, *, is_adjacent: bool) -> bool:
    """Whether a word of a sentence is no word; without a link before it, more is asked."""
    if len(value) < PASSWORD_CHARS_MIN or max(value) > "ɏ":
        return False
    digits = sum(map(str.isdigit, value))
    has_sign = not SIGNS.isdisjoint(value[:-1])
    if not (digits or has_sign):
        return False
    if is_adjacent:
        is_mixed = has_sign or digits > 1 or not (value.islower() or value.istitle())
        if not (digits and is_mixed and len(value) >= _ADJACENT_CHARS_MIN):
            return False
    has_letter = any(map(str.isalpha, value))
    return has_letter and not _NO_VALUE.fullmatch(value) and not is_no_secret(value)


def is_no_secret(value: str) -> bool:
    """Whether a value is a placeholder, a name of a variable or a technical term."""
    is_simple = len({*value}) < _DISTINCT_MIN
    is_simple = is_simple or (value.isupper() and value.replace("_", "").isalpha())
    return is_simple or bool(PLACEHOLDER.search(value) or _TERM.fullmatch(value))


def places_of(text: str, part: str) -> Iterator[int]:
    """Yield every place of a part in a text."""
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


def credential(sort: str, match: re.Match[str], *, group: str = "value") -> SecretMatch:
    """Return the match of a group as a certain secret."""
    start, end = match.span(group)
    return SecretMatch(sort=sort, start=start, end=end)
