"""Rules about commits: how to make one, what runs before it, and what is never committed."""

import re
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences

COMMIT_TERMS: Final = (
    "commit commits committed committing precommit git repo repository branch branches squash"
    " squashed rebase rebased fixup amend gitmoji history signed checked version"
).split()
"""Words of which a rule about commits has one."""
_RULE_CHARS_MAX: Final = 8_000
_BRANCH: Final = (
    r"(?:main|master|trunk|develop|release|production|head"
    r"|(?:\S+ )?(?:branch(?:es)?|repo(?:s|sitory|sitories)?)|git|(?:version|source) control)\b"
)
_OTHER_SENSES: Final = lazy_pattern(
    # To promise; but "commit directly to main" and "use pre-commit to" are meant.
    r"(?<!pre-)(?<!git )\b(?:commit(?:s|ted|ting)?) (?:\w+(?:self|selves) |us )?to\b"
    rf"(?! (?:the |a |an )?{_BRANCH})"
    # A version as a thing.
    r"|\bcommit[ -](?:hash(?:es)?|shas?|ids?|refs?|log|graph|status)\b"
    r"|\bcommit(?=\()|(?<=\w\.)commit\b|\b(?:auto|group|two-phase |2-phase )[- ]?commit\w*",
    re.IGNORECASE,
)
_TRANSACTION: Final = lazy_pattern(
    r"\b(?:transactions?|offsets?|savepoints?|rollbacks?|unit of work|autocommit|write-ahead"
    r"|commit\w* (?:and|or|nor) roll\w*|commit\w* (?:the |a |its |each |every )?"
    r"(?:(?:db|database|sql) )?(?:session|cursor|batch|writes?))\b",
    re.IGNORECASE,
)
"""Words of databases: what is committed is no change of files."""
_COMMITTING: Final = lazy_pattern(
    r"\b(?:pre-?commit|commit|commits|committing)\b"
    r"|\b(?:be|is|are|gets?|not|never|only|always)(?: \w+ly)? committed\b"
    r"|\bcommitted (?:files?|code|changes?|secrets?|to|with|by hand)\b",
    re.IGNORECASE,
)
_BY_OTHER_WORDS: Final = lazy_pattern(
    r"\b(?:squash(?:ed|es|ing)?|fixups?|gitmoji|signed-off-by|co-authored-by)\b"
    r"|\b(?:git|linear|commit) history\b|\bhistory \w+ linear\b|\brewrit\w+ (?:\w+ )?history\b"
    r"|\bsign(?:ed|s)?[- ]off\b|\bgit (?:add|hooks?|rebase|merge)\b"
    r"|\b(?:in|into|out of|from|to) (?:git|(?:version|source) control)\b(?! \w+ is)"
    r"|\b(?:into|out of) the repo(?:sitory)?\b"
    r"|\b(?:be|is|are|not|never) check(?:ed)? in\b"
    # What else has a base is named: "rebase the wages".
    r"|\brebas(?:e|ed|es|ing)\b(?! (?:the|an?|all|each|every|our|its|their|this|that) "
    r"(?!(?:[\w-]{1,20} )?(?:branch|commit|pull|pr|patch|stack|fork|change|feature|work|topic"
    r"|series|repo|history)))"
    r"|\brebas(?:e|ed|es|ing)\b(?: [\w-]{1,20}){1,6} (?:on|onto) (?:the )?(?:main|master|trunk"
    r"|develop|origin|upstream|head)\b",
    re.IGNORECASE,
)
_BRANCHES: Final = lazy_pattern(
    r"\bbranch(?:es)? (?:name|names|naming|named|per|from|off|starts?)\b"
    r"|\bbranches (?:are|is|must be|should be|have|live)\b|\bname (?:\w+ )?branch(?:es)?\b"
    r"|\b(?:feature|topic|short-lived|own|separate|new) branch(?:es)?\b",
    re.IGNORECASE,
)
_OFFICES: Final = lazy_pattern(
    r"\b(?:banks?|banking|cit(?:y|ies)|towns?|offices?|country|countries|streets?|cashiers?|staff)\b",
    re.IGNORECASE,
)
"""Words of companies, which have branches, too."""
_VERSIONED: Final = lazy_pattern(
    r"\b(?:git|commits?|repo(?:sitory)?|merged?|rebased?|pull requests?|prs?|tickets?|features?"
    r"|main|code|developers?)\b",
    re.IGNORECASE,
)


def concerns_commits(rule: str) -> bool:
    """Return whether a rule says how to commit, what runs before it, or what is never committed."""
    return any(map(_concerns, split_sentences(rule[:_RULE_CHARS_MAX], at_semicolons=True)))


def _concerns(sentence: str) -> bool:
    if _BY_OTHER_WORDS.search(sentence):
        return True
    is_of_company = _OFFICES.search(sentence) and not _VERSIONED.search(sentence)
    if _BRANCHES.search(sentence) and not is_of_company:
        return True
    if _TRANSACTION.search(sentence):
        return False
    return _COMMITTING.search(_OTHER_SENSES.sub(" ", sentence)) is not None
