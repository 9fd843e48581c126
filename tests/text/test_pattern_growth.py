"""The time of every regular expression on hostile text grows with its length, not its square."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from time import process_time
from typing import Any, cast

import pytest

import commonbrain.causality
import commonbrain.hooks
import commonbrain.ingestion
import commonbrain.text

MODULES = sorted(
    module.name
    for package in (
        commonbrain.causality,
        commonbrain.hooks,
        commonbrain.ingestion,
        commonbrain.text,
    )
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)
BOUNDED = {"commonbrain.text.entities._REFERENCE"}
"""Applied only to words of at most NAME_CHARS_MAX characters."""
SHORT = 500
LONG = 8 * SHORT
SUSPECT_S = 0.0002
"""Below this on the short text, 32 KB take less than a second, even if time is quadratic."""
GROWTH_MAX = 24
"""Between 8, which is linear, and 64, which is quadratic."""
ATTEMPTS = 3
SIGNS = (
    *" \n.-_/:,;!?'\"`=#@*\\|(<[{0aA\u00e9",
    *(
        "a ",
        "A ",
        "1 ",
        "- ",
        "a.",
        "a-",
        "a_",
        "a/",
        "a, ",
        "a: ",
        "a\n",
        " \n",
        "``",
        "://",
        "**",
    ),
)
METHODS = "match|fullmatch|search|sub|subn|split|finditer|findall"


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield a pattern, or those in a table of patterns."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in([*cast("dict[object, object]", value).values()])
    elif isinstance(value, (tuple, list, frozenset)):
        for one in cast("Iterable[object]", value):
            yield from patterns_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from patterns_in([getattr(value, one.name) for one in fields(value)])


def hostile_units(pattern: re.Pattern[Any]) -> tuple[str, ...]:
    """List what is repeated: common signs, and the signs and words of the pattern itself."""
    source = pattern.pattern
    written = source if isinstance(source, str) else source.decode("latin-1")
    plain = re.sub(r"\\[a-zA-Z]", " ", written)
    words = sorted(set(re.findall(r"[A-Za-z']{2,}", plain)), key=lambda word: (len(word), word))
    punctuation = [sign for sign in sorted(set(plain)) if not sign.isalnum()]
    return tuple(dict.fromkeys((*SIGNS, *punctuation, *(f"{word} " for word in words[:25]))))


def time_of(apply: Callable[[Any], object], text: str | bytes) -> float:
    started = process_time()
    apply(text)
    return process_time() - started


def growth(pattern: re.Pattern[Any], apply: Callable[[Any], object], unit: str) -> float:
    """Return how many times longer a text eight times as long takes; 1 if both take no time."""

    def text(size: int) -> str | bytes:
        repeated = (unit * size)[:size]
        return repeated if isinstance(pattern.pattern, str) else repeated.encode()

    short, long, ratio = time_of(apply, text(SHORT)), float("inf"), 1.0
    if short < SUSPECT_S:
        return ratio
    # Another process may delay one measurement, and none makes it shorter.
    for _ in range(ATTEMPTS):
        long = min(long, time_of(apply, text(LONG)))
        ratio = long / short
        if ratio <= GROWTH_MAX:
            break
    return ratio


def applied(pattern: re.Pattern[Any], variable: str, source: str) -> Callable[[Any], object]:
    """Return the method by which a module applies a pattern: a search unless it only matches.

    What is only matched at the beginning may repeat what a search would repeat at each place.
    """
    uses = set(re.findall(rf"\b{variable}\.({METHODS})\b", source))
    if uses == {"match"}:
        return pattern.match
    return pattern.fullmatch if uses == {"fullmatch"} else pattern.search


@pytest.mark.requirement("PF-13")
def test_every_pattern_takes_linear_time_on_hostile_text(subtests: pytest.Subtests) -> None:
    for name in MODULES:
        with subtests.test(name=name):
            module = importlib.import_module(name)
            source = inspect.getsource(module)
            slow = [
                (variable, unit)
                for variable, value in vars(module).items()
                if f"{name}.{variable}" not in BOUNDED and f"\n{variable}: Final" in source
                for pattern in patterns_in(value)
                for unit in hostile_units(pattern)
                if growth(pattern, applied(pattern, variable, source), unit) > GROWTH_MAX
            ]
            assert not slow
