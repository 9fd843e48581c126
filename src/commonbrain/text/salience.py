"""The salience of a memory: whether its text says anything, and how much that matters.

What a text says shows in its content words, numbers, names and code. It matters more if it states
a constraint, a commitment, a deadline or what is unresolved, or if it recurs. A text in a language
whose few words are not listed counts as an ordinary statement.
"""

from collections.abc import Sequence
from typing import Final

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import SALIENCE_MIN
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import count_words
from commonbrain.text.words import Phrases, Sort, Word, read_words

_CHARS_MAX: Final = 1000
"""A longer text is known by its beginning."""
_NOTHING_SAID: Final = SALIENCE_MIN / 2
_STATEMENT_WORDS: Final = 6
"""Content words of a full statement."""
_LONG_WORD_CHARS: Final = 7
_CONTENT_SHARE: Final = 0.3
_SIGN_SHARE: Final = 0.15
"""Share of a kind's salience that depends on each sign of a statement: a number or code, a name, a
long word, that it speaks of neither "I" nor "you", and that it neither asks nor exclaims."""
_PERSONS: Final = frozenset("i you your me my".split())
_COURTESY: Final = (
    "hi,hello,hey,yo,thanks,thank,thx,ty,welcome,sorry,yes,yeah,yep,nope,sure,lol,haha,cheers,great"
    ",nice,cool,good,lovely,congrats,bye,alright,enjoy,anyway,never mind,no worries,no problem"
    ",got it,hope you,morning all,merci,danke,gern,gracias"
)
_COURTESIES: Final = Phrases(_COURTESY)
COURTEOUS_WORDS: Final = frozenset(_COURTESY.split(","))
_COURTESY_WITHIN: Final = 8
"""Opening words of which one of courtesy marks small talk."""
_RANDOM_KEYS: Final = lazy_pattern(r"\w*(?:qwer|asdf|sdfg|zxcv|hjkl|([a-z])\1\1)\w*")
"""Keys next to each other, and one that is held down."""

_CONSTRAINT: Final = Phrases(
    "must,shall,should,always,never,ever,only,cannot,can't,may not,do not,don't,has to,have to"
    ",had to,need*,require*,forbid*,prohibit*,ban*,mandatory,allow*,permit*,insist*,want*,expect*"
    ",please,no,unless,whatever,at most,at least,no more than,make sure,ensure*,avoid*,prefer*"
    ",instead of,approve*,approval,confirm*,by law,legally,compliance,allergic"
    ",immer,nie,niemals,nur,muss,darf,bitte,kein,keine,toujours,jamais,doit,exige,faut,interdit"
    ",siempre,nunca,debe,hay que,sempre,mai,deve,nooit,altijd,moet"
)
_COMMITMENT: Final = Phrases(
    "promise*,commit*,commitment*,agree*,guarantee*,owe*,sign*,assure*,pledge*,we'd,i'd"
    ",we'll,i'll,we will,i will,my word,deadline*,due,overdue,expire*"
    ",last day,renew*,versprochen,zugesagt,promis,prometido"
)
_UNRESOLVED: Final = Phrases(
    "fail*,failure,crash*,break*,lose*,block*,stick*,wait*,unknown,unclear,pending,miss*,still"
    ",reject*,refuse*,stop*,drop*,leak*,expose*,cancel*,down,delay*,late,risk*,danger*,critical"
    ",urgent,emergency,unresolved,not yet,has not,hasn't,have not,haven't,isn't,aren't,without"
    ",wrong,corrupt*,out of,problem*,error*,outage*,overload*,exceed*,behind,angry"
    ",complain*,threaten*,penalty,lawsuit,steal*,breach*,compromise*,attack*,injure*,quit*,resign*"
    ",unpaid,unanswered,noch,nicht,ohne,fehlt,todavía,sin,falta,sigue,encore,sans,manque,ancora"
)
_RECURRENCE: Final = Phrases(
    "again,once more,every time,each time,second time,third time,twice,repeated*,keep*,wieder"
    ",otra vez"
)
_MATTERS: Final = 0.5
"""What a constraint, a commitment or an open point adds; two of them make up the most."""
_MATTERS_LESS: Final = 0.3
"""What a recurrence, a denial, a deadline or another word of what is to come adds."""
_AHEAD: Final = frozenset("will until before if unless when once after by within till bis".split())
"""Words of a deadline or condition."""

_PER_RECURRENCE: Final = 0.02
_RECURRENCES_MAX: Final = 10
"""Daily events are known after ten days."""
_PER_ENTITY: Final = 0.01
_ENTITIES_MAX: Final = 5
"""Names connect memories, but any log line has some, so they count little."""


def salience(kind: Kind, text: str, *, due: bool = False, entities: int = 0) -> float:
    """Return the salience of a memory, 0..1; below `SALIENCE_MIN` if its text says nothing.

    Args:
        kind: sets the salience of a full statement that nothing speaks for.
        text: what it says.
        due: whether it is an open task with a deadline.
        entities: the number of people, topics and references.

    """
    words = [word for word in read_words(text[:_CHARS_MAX]) if word.sort is not Sort.STOP]
    content = [word for word in words if word.is_content and _says_something(word)]
    if not content and len(text) <= _CHARS_MAX and not _UNRESOLVED.are_in(words):
        return _NOTHING_SAID
    usual = KINDS[kind].salience
    stated = _stated(text, words, content=content)
    matters = _matters(words, due=due)
    is_small_talk = _COURTESIES.are_in(words[:_COURTESY_WITHIN])
    value = (usual * stated + (1 - usual) * matters) / (2 if is_small_talk else 1)
    named = _PER_ENTITY * min(max(entities, 0), _ENTITIES_MAX)
    return round(min(max(value, SALIENCE_MIN) + named, 1.0), 4)


def recurring(salience: float, *, recurrences: int) -> float:
    """Raise the salience of a recurring event, 0..1, for the first ten times."""
    if recurrences > _RECURRENCES_MAX:
        return salience
    return round(min(salience + _PER_RECURRENCE, 1.0), 4)


def _says_something(word: Word) -> bool:
    is_written = any(map(str.isalnum, word.plain))
    # Unlike an abbreviation such as IEEE.
    is_random = word.written.islower() and _RANDOM_KEYS.fullmatch(word.plain)
    return is_written and word.plain not in COURTEOUS_WORDS and not is_random


def _stated(text: str, words: Sequence[Word], *, content: Sequence[Word]) -> float:
    """Return how much a text reads like a statement rather than talk, 0..1."""
    signs = (
        any(word.sort in {Sort.NUMBER, Sort.CODE} for word in content),
        any(word.sort is Sort.NAME for word in content),
        any(len(word.plain) >= _LONG_WORD_CHARS for word in content),
        _PERSONS.isdisjoint(word.plain.partition("'")[0] for word in words),
        not text.rstrip().endswith(("!", "?")),
    )
    share = min(sum(count_words(word.written) for word in content) / _STATEMENT_WORDS, 1.0)
    return 1 - _CONTENT_SHARE * (1 - share) - _SIGN_SHARE * signs.count(False)


def _matters(words: Sequence[Word], *, due: bool) -> float:
    """Return how much of the range above the usual salience a text reaches, 0..1."""
    strong = sum(term.are_in(words) for term in (_CONSTRAINT, _COMMITMENT, _UNRESOLVED))
    weak = (
        _RECURRENCE.are_in(words)
        + due
        + any(word.sort is Sort.NEGATION for word in words)
        + any(word.plain in _AHEAD for word in words)
    )
    return min(_MATTERS * strong + _MATTERS_LESS * weak, 1.0)
