"""The verbs by which English states that a thing changed another."""

from collections.abc import Iterable
from typing import Final


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of some words."""
    return f"(?:{'|'.join(words)})"


_HARMS: Final = (
    "broke breaks crashed crashes killed kills corrupted corrupts overloaded overloads overwhelmed"
    " overwhelms exhausted exhausts starved starves saturated saturates stalled stalls froze"
    " freezes flooded floods swamped swamps slowed slows delayed delays disrupted disrupts degraded"
    " degrades blocked locked jammed shorted interrupted wiped masked hid halved doubled tripled"
    " prevented stopped deleted invalidated exposed confused knocked"
)
"""Verbs for an unintended effect of the subject on the object."""
_REPAIRS: Final = "fixed solved resolved restored cured eliminated unblocked"
_WEAK_VERBS: Final = (
    "made makes let lets meant means forced forces filled fills took takes cut cuts left leaves"
    " dropped drops saved saves turned turns drove drives sped led allowed allows kept keeps pushed"
    " pushes blocks locks stops prevents doubles triples halves exposes confuses hides masks fixes"
    " solves resolves restores explained explains triggered triggers"
)
"""Verbs that state an effect only after "which" and "this", or with a complement."""
CAUSED: Final = (
    r"(?:caused|causes|triggered|triggers|resulted in|results in|brought about"
    r"|brings about|brought down|brings down|brought on|set off|gave rise to)"
)
PLURAL_CAUSED: Final = r"(?:cause|trigger|result in|bring down|break|block|kill|corrupt)"
NOT_BY: Final = r"(?! (?:not |only |either |[a-z]{2,15}ly |in part )?by\b)"
""""caused by X" makes the subject the effect."""
EFFECT_VERB: Final = any_of(f"{_HARMS} {_REPAIRS}".split())
DETERMINER: Final = (
    r"(?:the (?!moment|minute|instant|second|day)|an? |every |all |each |our |their |its |my |some "
    r"|both |half |most |many |several |two |three )"
)
"""Words that open an object."""
EFFECT_PHRASE: Final = any_of(
    (
        r"(?:took|takes|knocked|brought) (?=[^,.;]{1,60} (?:down|offline|out)\b)",
        r"(?:logged|locked|cut|kicked|threw|shut) (?=[^,.;]{1,40} (?:out|off|down)\b)",
        r"(?:locked|logged|knocked) out (?=\S)",
        r"(?:allowed|let|led|forced|caused) (?=[^,.;]{1,60} to )",
        r"(?:meant|means|has meant) (?=that )",
        r"(?:made|makes) (?=[^,.;]{1,60}\b(?:un\w{3,12}|slow|slower|fail|wait|crash|miss|impossible"
        r"|harder|faster|useless)\b)",
        r"(?:left|leaves) (?=[^,.;]{1,60} (?:with|without|un\w{3,12}|offline|down|empty|behind)\b)",
        r"(?:pushed|pushes) (?=[^,.;]{1,60} (?:back|launch|release|date|deadline|delivery)\b)",
        r"(?:cut|cuts|drove) (?=[^,;]{1,60}(?: (?:from|to|by|in half|down|up)\b))",
        r"(?:kept|keeps) (?=[^,.;]{1,60} (?:from|at|busy|awake)\b)",
        r"(?:turned|turns) (?=[^,.;]{1,60} into )",
        r"(?:held up|slowed down|set back|threw off) (?=\S)",
    )
)
"""Verbs that state an effect by their particle or complement."""
DID: Final = (
    rf"(?:{CAUSED}|{PLURAL_CAUSED}|led to|leads to|lead to|(?:is|are|was|were) causing"
    rf"|{EFFECT_VERB}|{any_of(_WEAK_VERBS.split())}){NOT_BY}"
)
PASSIVE: Final = any_of(
    "blocked|delayed|held up|stalled|broken|killed|slowed(?: down)?|overloaded|overwhelmed"
    "|exhausted|starved|saturated|corrupted|locked(?: out)?|flooded|swamped"
    "|knocked (?:out|offline|over)|taken (?:down|offline)|hidden|masked|interrupted|disrupted"
    "|wiped(?: out)?|truncated|jammed"
    "|shorted|damaged|throttled|evicted|crashed|cut off|degraded|overwritten|worsened"
    "|stopped|prevented|thrown off|eaten(?: up)?|filled(?: up)?|doubled|inflated"
    "|skewed".split("|")
)
ACTING_CUES: Final = (
    "breaking forcing leaving making blocking killing saturating overloading overwhelming starving"
    " freezing stalling crashing exhausting flooding corrupting delaying locking slowing stopping"
    " preventing taking knocking exposing dropping filling pushing doubling wiping hiding masking"
    " allowing letting cutting turning sending bringing"
)
ACTING: Final = any_of(ACTING_CUES.split())
CUES: Final = (
    f"{_HARMS} {_REPAIRS} {_WEAK_VERBS} caused causes cause causing trigger resulted results result"
    " break block kill corrupt bring brought brings set gave leads lead logged kicked threw shut"
    " has held"
)
"""Words of which a sentence with one of these verbs has at least one."""
