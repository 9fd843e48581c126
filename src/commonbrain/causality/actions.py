"""What a report says happened, without what differs each time: numbers, dates, ids and agents.

"Config push number 8" and "Config push number 15" report the same subject and action. Texts with
equal keys form a group, so the order in which they are read does not matter.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import is_negation, stem

ActionKey = tuple[str, ...]
"""The stems of subject and action; texts with equal keys report the same thing."""
_CHARS_MAX: Final = 500
"""A key is made of a headline or a field of an atom; of a longer text, its beginning counts."""
_CLAUSE: Final = lazy_pattern(
    r"[;\n]|[.!?](?=\s)|,?\s(?:because|due to|so that|and so|after|before|when|while|which"
    r"|causing|leading to|resulting in)\s",
    re.IGNORECASE,
)
"""The end of the clause that reports: reasons and circumstances differ each time."""
_AGENT: Final = lazy_pattern(r"\s(?:by|with thanks to)\s+@?[A-Z][\w.'-]*(?:\s+[A-Z][\w.'-]*)?")
"""The person who did it: "by Ann Lee"."""
_DAY: Final = (
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|January|February|March|April|May|June|July"
    r"|August|September|October|November|December|Q[1-4]"
    r"|(?i:today|yesterday|tonight|tomorrow|utc|[ap]\.?m\.?)"
)
"""Days and months; "may" and "march" are words too, unless they begin with a capital."""
_VARIABLE: Final = lazy_pattern(
    r"(?<![\w-])(?:"
    rf"{_DAY}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}"  # a hash
    r"|[a-z]{2,5}_[0-9A-HJKMNP-TV-Z]{10,26}"  # an id of a memory, thread or session
    r"|v\d+(?:\.\d+)*(?:-[\w.]+)?"  # a version
    r"|#?\d[\d.,:/%Tx-]*(?:st|nd|rd|th|[ap]m|ms|s|m|h|d|min|[kKMGT]i?[bB]?|Z)?"
    r")(?![\w-])"
    r"|[-_#.]?\d+"  # the number within a name: db1, web-03
)
"""What differs each time. No alternative can match one stretch in two ways."""
_WORD: Final = lazy_pattern(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_SILENT: Final = frozenset(
    "a an the of is was were are be been being has have had i we our my your their its this that"
    " number nr again another".split()
)
_PREPOSITIONS: Final = frozenset("at by for from in into on onto over since to until with".split())
_RELATIONS: Final = frozenset("by for from instead into onto over than to with".split())
"""Words that say which side is which, so that the order of the others counts."""
_MARK: Final = "\u2026"
_WORDS_MIN: Final = 2
_CACHED: Final = 1024


@lru_cache(maxsize=_CACHED)
def action_key(text: str) -> ActionKey:
    """Return the stems of subject and action.

    They are sorted, unless words such as "from" and "to" give their order a meaning. A text that
    consists of what differs has its own words as the key.
    """
    words = [one[0].casefold() for one in _WORD.finditer(_VARIABLE.sub(" ", _reporting(text)))]
    content = [word for word in words if word not in _SILENT]
    named = [
        word
        for word, after in pairwise([*content, ""])
        # A preposition whose object differs each time says nothing either.
        if word not in _PREPOSITIONS or (after and after not in _PREPOSITIONS)
    ]
    stems = [stem(word) for word in named]
    if not stems:
        return (" ".join(text.casefold().split()),)
    return tuple(stems if _RELATIONS.intersection(named) else sorted(set(stems)))


def action_label(text: str) -> str:
    """Return the reporting clause with a mark for each part that differs each time."""
    return " ".join(_VARIABLE.sub(_MARK, _reporting(text)).split())


def reports_change(text: str) -> bool:
    """Return whether the reporting clause says that something changed or failed."""
    clause = _reporting(text)
    words = {one[0].casefold() for one in _WORD.finditer(clause)}
    is_loose = not _LOOSE_CHANGES.isdisjoint(_stems(clause)) or not words.isdisjoint(_STATES)
    return is_loose or names_change(clause)


def names_change(text: str) -> bool:
    """Return whether a text has a word for a change or fault that seldom means something else."""
    return not _CHANGES.isdisjoint(_stems(text)) or _AT_LIMIT.search(text) is not None


def _stems(text: str) -> set[str]:
    """Return the stems of the words, also without "re" and hyphens: "redeployed", "re-enabled"."""
    words = {one[0].casefold() for one in _WORD.finditer(text)}
    again = {word[match.end() :] for word in words if (match := _AGAIN.match(word))}
    return set(map(stem, words | again | {word.replace("-", "") for word in words}))


def denies_change(text: str) -> bool:
    """Return whether the reporting clause is negated or a question."""
    clause = _reporting(text)
    words = {one[0].casefold() for one in _WORD.finditer(clause)}
    return "?" in clause or any(map(is_negation, words))


_STATES: Final = frozenset(
    "down offline full late wrong slow unavailable unreachable unresponsive stuck dead read-only"
    " readonly cleaned cleaning".split()
)
_CHANGES: Final = frozenset(
    map(
        stem,
        "deploy push switch rotate enable disable upgrade update downgrade migrate move change"
        " restart reboot stop remove delete drop add raise lower increase decrease reduce rise fall"
        " grow shrink shrank shrunk fill fail crash break lose expire expiry exceed exhaust leak"
        " block lock stall hang hung freeze overload overflow corrupt truncate rename rewrite"
        " rewrote rewritten replace revert roll rollout rollback patch hotfix install uninstall"
        " release merge rebalance scale configure reconfigure throttle saturate spike drain kill"
        " error timeout outage failure refuse reject deny degrade resize provision revoke reset"
        " purge flush clear shut shutdown refactor rebuild rebuilt recreate reindex redirect"
        " repoint evict bump tune pause suspend resume toggle wipe swap alter cordon decommission"
        " mount unmount unplug pin unpin promote demote overwrite overwrote overwritten archive"
        " backfill detach cancel".split(),
    )
)
"""Stems of words for changes and faults."""
_LOOSE_CHANGES: Final = frozenset(map(stem, "time run set turn cut limit miss close start".split()))
"""Stems of words that have other meanings; in the report of an incident they mean changes."""
_AGAIN: Final = lazy_pattern(r"re-?(?!turn)(?=\w)")
_AT_LIMIT: Final = lazy_pattern(
    r"\b(?:hits?|hitting|reach(?:es|ed)?) (?:its|the|their|our|an?) (?:[\w-]{1,20} )?"
    r"(?:quota|limit|cap|ceiling|maximum)\b",
    re.IGNORECASE,
)


def _reporting(text: str) -> str:
    """Return the first clause without the agent, or the text if that says too little."""
    beginning = text[:_CHARS_MAX].strip()
    clause = _AGENT.sub(" ", _CLAUSE.split(beginning, maxsplit=1)[0])
    return clause if len(_WORD.findall(clause)) >= _WORDS_MIN else beginning
