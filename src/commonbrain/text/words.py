"""The words of a text, each with its sort: word, number, name, identifier, negation and so on.

Every pattern is linear on hostile text: none can match one stretch in two ways.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Final, cast

import Stemmer

from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern


class Sort(StrEnum):
    """What a word is, by its shape or by a list."""

    WORD = "word"
    """A content word."""
    NAME = "name"
    """A word with a capital where none is due."""
    NUMBER = "number"
    """A number, version, date or time, or a number word."""
    CODE = "code"
    """An identifier, path, flag, variable or address: its capitals and signs count."""
    OPERATOR = "operator"
    NEGATION = "negation"
    QUANTIFIER = "quantifier"
    MODAL = "modal"
    FUNCTION = "function"
    """An article, pronoun, preposition, auxiliary or conjunction."""
    STOP = "stop"
    """Punctuation between clauses."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text."""

    written: str
    plain: str
    """In lower case, a number word as digits, an abbreviated unit in full."""
    stem: str
    """The stem, the same for irregular forms; of code and numbers the word itself."""
    sort: Sort

    @property
    def is_content(self) -> bool:
        """Whether it says something by itself."""
        return self.sort in CONTENT

    @property
    def key(self) -> str:
        """The form that is compared: of code as it is written, else the stem."""
        return self.written if self.sort is Sort.CODE else self.stem


CONTENT: Final = frozenset({Sort.WORD, Sort.NAME, Sort.NUMBER, Sort.CODE})
NEGATIONS: Final = frozenset(
    "not never no nor none neither nothing nobody nowhere without cannot hardly".split()
)
"""Words that deny; contractions with "n't" do so, too."""
QUANTIFIERS: Final = frozenset(
    "only all every each any some most many few several both either half least exactly always"
    " sometimes often usually rarely mostly entire everything everyone everybody anyone".split()
)
MODALS: Final = frozenset("must shall should may might can could will would ought".split())
FUNCTIONS: Final = frozenset(
    "a an the this that these those my our your its his her their whose"
    " i you he she it we they me us him them who which what there here"
    " in on at of for to with from by per during when if while until unless except under over"
    " within before after via through between as because since so but and or than about against"
    " into onto upon across along around among toward towards behind beside above below off out up"
    " down is are was were be been being am has have had having do does did doing done get gets got"
    " ok okay please also already still just too very really now then again ever yet even".split()
)
ARTICLES: Final = frozenset("a an the this that these those my our your its his her their".split())
# Words of one group exclude each other: a statement with another one says something else.
GROUPS: Final = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "hourly daily nightly weekly monthly quarterly yearly annually fortnightly",
    "morning noon afternoon evening night midnight",
    "red green blue yellow grey black white orange purple brown pink",
    "left right",
    "north south east west",
    "staging production development",
    "enabled disabled",
    "public private",
    "open closed",
    "true false",
    "yes no",
    "mandatory optional",
    "english german french italian spanish portuguese dutch polish japanese chinese",
)
GROUP_OF: Final = {
    word: number for number, group in enumerate(GROUPS) for word in group.split() if word != "may"
}
_COUNTS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBER_WORDS: Final = {
    **{word: str(n) for n, word in enumerate(_COUNTS) if word != "one"},
    "twice": "2",
    **{word: str(10 * n) for n, word in enumerate(_TENS, 2)},
    **{
        f"{ten}-{_COUNTS[unit]}": str(10 * tens + unit)
        for tens, ten in enumerate(_TENS, 2)
        for unit in range(1, 10)
    },
    "hundred": "100",
    "thousand": "1000",
}
UNITS: Final = {
    form: dimension
    for dimension, forms in {
        "time": "ms millisecond s sec second min minute h hr hour day week month quarter year",
        "size": "kb mb gb tb kib mib gib tib byte megabyte gigabyte",
        "share": "% percent",
        "money": "€ $ £ euro dollar pound franc cent",
        "length": "mm cm m km metre meter mile inch",
        "voltage": "v kv volt",
        "power": "w kw watt",
        "energy": "kwh mwh",
        "weight": "g kg gram kilo ton tonne",
        "clock": "am pm o'clock",
        "heat": "°c °f degree celsius",
    }.items()
    for form in forms.split()
}
"""Units by what they measure, in the singular."""
_IN_FULL: Final = {
    "ms": "millisecond",
    "sec": "second",
    "secs": "second",
    "min": "minute",
    "mins": "minute",
    "hrs": "hour",
    "hr": "hour",
    "percent": "%",
    "dollar": "$",
    "dollars": "$",
    "euro": "\u20ac",
    "euros": "\u20ac",
    "db": "database",
    "gray": "grey",
    "prod": "production",
    "dev": "development",
    "mon": "monday",
    "tue": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "fri": "friday",
}
_ATTACHED: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", **_IN_FULL}
"""Units that follow a number without a blank."""
_IRREGULAR: Final = (
    "agree agreed,arise arose arisen,awake awoke,become became,begin began begun,blow blew blown,"
    "break broke broken,breed bred,bring brought,build built,burn burnt,buy bought,catch caught,"
    "choose chose chosen,cling clung,come came,creep crept,deal dealt,dig dug,do did done,draw drew"
    " drawn,drink drank,drive drove driven,eat ate eaten,fall fell fallen,feed fed,feel felt,fight"
    " fought,find found,flee fled,fly flew flown,forbid forbade forbidden,forget forgot forgotten,"
    "forgive forgave forgiven,free freed,freeze froze frozen,get got gotten,give gave given,go went"
    " gone,grow grew grown,guarantee guaranteed,hang hung,hear heard,hide hid hidden,hold held,keep"
    " kept,kneel knelt,know knew known,lay laid,lead led,leave left,lend lent,light lit,lose lost,"
    "make made,mean meant,meet met,mislead misled,mistake mistook mistaken,overcome overcame,"
    "overrun overran,overtake overtook overtaken,overwrite overwrote overwritten,pay paid,rebuild"
    " rebuilt,redo redid redone,rerun reran,rewrite rewrote rewritten,ride rode ridden,ring rang"
    " rung,rise rose risen,run ran,say said,see saw seen,seek sought,sell sold,send sent,shake"
    " shook shaken,shine shone,shoot shot,shrink shrank shrunk,sing sang sung,sink sank sunk,sit"
    " sat,sleep slept,slide slid,speak spoke spoken,speed sped,spend spent,spin spun,spring sprang,"
    "stand stood,steal stole stolen,stick stuck,strike struck,swear swore sworn,sweep swept,swim"
    " swam swum,swing swung,take took taken,teach taught,tear tore torn,tell told,think thought,"
    "throw threw thrown,understand understood,undertake undertook undertaken,undo undid undone,"
    "uphold upheld,wake woke woken,wear wore worn,weave wove woven,weep wept,win won,withdraw"
    " withdrew withdrawn,write wrote written,have had"
)
"""Verbs with their past and participle, which stemming does not bring together."""
_PRESENT: Final = {"goes": "go", "does": "do", "has": "have"}
_BASE: Final = _PRESENT | {
    form: verb.split()[0] for verb in _IRREGULAR.split(",") for form in verb.split()[1:]
}
IRREGULAR_FORMS: Final = frozenset(_BASE) - _PRESENT.keys()
"""Pasts and participles."""
PAST_TENSE: Final = frozenset(verb.split()[1] for verb in _IRREGULAR.split(","))
UNCHANGED: Final = frozenset(
    "beat bet bid burst cast cost cut hit hurt let put quit read reset set shed shut split"
    " spread".split()
)
"""Verbs whose past is like the present."""
PAST_AUXILIARIES: Final = frozenset("was were had did wasn't weren't hadn't didn't".split())
_PAST_CHARS_MIN: Final = 4
"""Shorter words that end like a past are none: "red", "bed"."""
_SPELLINGS: Final = (
    ("our", "or"),
    ("isation", "ization"),
    ("ise", "ize"),
    ("theatre", "theater"),
    ("centre", "center"),
    ("licence", "license"),
)
"""British spellings, with the American ones."""
_TOKEN: Final = lazy_pattern(
    r"(?P<address>[A-Za-z][A-Za-z+.-]{1,15}://[^\s<>\"'`]+)|(?P<path>(?:(?<!\S)|(?<=[`'\"(*]))(?:~"
    r"|\.{1,2})?/[^\s<>\"'`,;)]*|(?!\d[\d.,]{0,15}/(?:mo|month|y|yr|year|week|day|h|hour|min|minute"
    r"|s|sec|user|seat)\b)[\w.@-]{1,64}(?:/[\w.@*-]{1,64})+/?)"
    r"|(?P<dotfile>(?<![\w./~])\.[A-Za-z][\w-]{1,30}(?:\.[\w-]{1,30})*)"
    r"|(?P<flag>(?<![\w-])--?[A-Za-z][\w-]*)|(?P<variable>\$(?:\{\w+\}|[^\W\d]\w*)|\$[@*#?!]"
    r"|@\w[\w.-]*|\#\w[\w-]*|[\w.-]{2,64}@[\w.-]*)|(?P<operator>->|→|=>|<=|>=|[=!]=+"
    r"|[<>=~^](?=\s*[\w$]))"
    r"|(?P<number>(?:(?<![\w)])[-+\u2212])?\d+(?:[.,:/-]\d+)*(?:[^\W\d_]{1,9}(?![\w-])|%"
    r"|\u00b0[CF]?)?(?![\w-]))|(?P<money>[€$£](?=\d)|(?<=\d)[€$£]|(?<=\d )[€$£])"
    r"|(?P<word>\w+(?:(?:[.'\u2019:-]|::)\w+)*(?:\+\+|\#)?)|(?P<sign>(?<=\s)[+*/\u2212-](?=\s)"
    r"|[\u2600-\u27bf\U0001f300-\U0001faff])|(?P<stop>[.!?;:,()\n\u2014\u2013])"
)
_CAMEL: Final = lazy_pattern(r"[^\W_]*[a-z0-9][A-Z]|.*[_\d.:#+]|[A-Z]{2,}[a-z]")
"""The shape of an identifier or version: a sign, a digit or a capital inside."""
_TITLES: Final = ("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "vs", "e.g", "i.e")
"""Abbreviations that a sentence continues."""
_PLURAL_MIN: Final = 2
_CACHED_WORDS: Final = 8192
_CACHED_TEXTS: Final = 512
_stem_of = cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord)  # pyright: ignore[reportUnknownMemberType]


def is_negation(word: str) -> bool:
    """Return whether a word in lower case denies: "not", "without", "didn't"."""
    return word in NEGATIONS or word.endswith("n't")


def is_past(word: str) -> bool:
    """Return whether a word in lower case is a past or participle: "moved", "went", "written"."""
    is_regular = word.endswith("ed") and not word.endswith("eed") and len(word) >= _PAST_CHARS_MIN
    return is_regular or word in IRREGULAR_FORMS or word in PAST_AUXILIARIES


@lru_cache(maxsize=_CACHED_WORDS)
def stem(word: str) -> str:
    """Return the stem of a word in lower case, the same for irregular forms and spellings."""
    plain = word
    for british, american in _SPELLINGS:
        plain = plain.replace(british, american)
    return _stem_of(_BASE.get(word, plain))


@lru_cache(maxsize=_CACHED_TEXTS)
def read_words(text: str) -> tuple[Word, ...]:
    """Split a text into words and punctuation, in time linear in its length."""
    return tuple(_words(text))


def _words(text: str) -> Iterator[Word]:
    is_start = True
    for match in _TOKEN.finditer(text):
        group, written = match.lastgroup or "", match[0]
        if written == "." and group == "stop" and _abbreviates(text, match.start()):
            continue
        if group == "stop":
            yield Word(written, written, written, Sort.STOP)
            is_start = written not in ",()"
            continue
        if group in {"address", "path", "dotfile", "flag", "variable"}:
            bare = written.rstrip(".:!?") or written
            mark = "" if bare == written else written[-1]
            if match.start() and text[match.start() - 1] == "*":
                # In Markdown, "**src/app.py**" is set in bold.
                bare = bare.rstrip("*") or bare
            yield Word(bare, bare.casefold(), bare, Sort.CODE)
            if mark:
                yield Word(mark, mark, mark, Sort.STOP)
        elif group in {"operator", "sign"}:
            yield Word(written, written, written, Sort.OPERATOR)
        elif group == "number":
            yield from _number(written)
        elif group == "money":
            yield Word(written, written, written, Sort.WORD)
        else:
            yield from _word(written, is_start=is_start)
        is_start = False


def _abbreviates(text: str, at: int) -> bool:
    """Return whether a point belongs to an abbreviation: "Dr.", "Miller v. Smith"."""
    is_letter = at > 1 and text[at - 1].islower() and text[at - 2].isspace()
    return is_letter or text.endswith(_TITLES, 0, at)


_DIGITS: Final = lazy_pattern(r"([-+\u2212]?\d+(?:[.,:/-]\d+)*)(.*)", re.DOTALL)
_THOUSANDS: Final = lazy_pattern(r"(?<=\d)[,'](?=\d{3}(?!\d))")
_DECIMAL: Final = lazy_pattern(r"[-+]?\d{1,15}(?:\.\d{1,15})?")
_SCALES: Final = {"k": 3, "K": 3, "M": 6}
"""Powers of ten by the letter that follows a number."""
_ORDINALS: Final = frozenset({"st", "nd", "rd", "th"})


def _number(written: str) -> Iterator[Word]:
    """Yield a number and the unit that is written with it; else an identifier such as `2fa`."""
    match = _DIGITS.fullmatch(written)
    digits, rest = (match[1], match[2].casefold()) if match else (written, "")
    plain = _THOUSANDS.sub("", digits).replace("\u2212", "-").removesuffix(".00")
    scale = _SCALES.get(written[len(digits) :])
    if scale is not None and _DECIMAL.fullmatch(plain):
        plain, rest = f"{Decimal(plain).scaleb(scale):f}", ""
    unit = _ATTACHED.get(rest, rest)
    if not rest or rest in _ORDINALS or unit in UNITS:
        yield Word(written, plain, plain, Sort.NUMBER)
        if unit in UNITS:
            yield Word(unit, unit, unit, Sort.WORD)
    else:
        yield Word(written, written.casefold(), written, Sort.CODE)


@lru_cache(maxsize=_CACHED_WORDS)
def _word(written: str, *, is_start: bool) -> tuple[Word, ...]:
    folded = written.casefold().replace("\u2019", "'")
    if folded in _NUMBER_WORDS:
        return (_plain(written, _NUMBER_WORDS[folded], sort=Sort.NUMBER),)
    if "-" in written and not _CAMEL.match(written.replace("-", "")):
        # A compound of words is compared part by part: some write it with a blank, others without.
        parts = enumerate(written.split("-"))
        each = (_word(part, is_start=is_start and not place) for place, part in parts)
        return tuple(chain.from_iterable(each))
    return (_simple(written, folded, is_start=is_start),)


def _simple(written: str, folded: str, *, is_start: bool) -> Word:
    if len(written) > _PLURAL_MIN and written[:-1].isupper() and written[-1] == "s":
        # "PDFs" are several of "PDF".
        written, folded = written[:-1], folded[:-1]
    plain = folded if written in _TITLES else _IN_FULL.get(folded, folded).removesuffix("'s")
    listed = _listed(plain, is_month=written == "May" and not is_start)
    if written in _TITLES or (listed is None and "'" in plain):
        listed = Sort.FUNCTION
    if listed is not None and written not in {"US", "IT"}:
        return _plain(written, plain, sort=listed)
    if _CAMEL.match(written):
        return Word(written, plain, written, Sort.CODE)
    is_name = written[0].isupper() and not is_start and plain not in GROUP_OF
    return _plain(written, plain, sort=Sort.NAME if is_name else Sort.WORD)


def _listed(plain: str, *, is_month: bool) -> Sort | None:
    """Return the sort of a word that a list names."""
    if is_negation(plain):
        return Sort.NEGATION
    if plain in QUANTIFIERS:
        return Sort.QUANTIFIER
    if plain in MODALS:
        return None if is_month else Sort.MODAL
    return Sort.FUNCTION if plain in FUNCTIONS else None


def _plain(written: str, plain: str, *, sort: Sort) -> Word:
    return Word(written, plain, plain if sort is Sort.NUMBER else stem(plain), sort)


class Phrases:
    """Phrases, separated by commas; a word with an asterisk stands for all of its forms."""

    def __init__(self, listed: str) -> None:
        self._by_first: Final = defaultdict[str, list[Sequence[str]]](list)
        for phrase in listed.split(","):
            first, *rest = (
                f"{stem(part[:-1])}*" if part.endswith("*") else part for part in phrase.split()
            )
            self._by_first[first].append(rest)

    def place_in(self, words: Sequence[Word]) -> int | None:
        """Return where the first of the phrases begins; None if there is none."""
        return next((n for n in range(len(words)) if self._begins_at(words, n)), None)

    def are_in(self, words: Sequence[Word]) -> bool:
        """Return whether one of the phrases occurs."""
        return self.place_in(words) is not None

    def _begins_at(self, words: Sequence[Word], place: int) -> bool:
        word = words[place]
        return any(
            len(words) - place > len(rest)
            and all(
                part in {follower.plain, f"{follower.stem}*"}
                for follower, part in zip(words[place + 1 :], rest, strict=False)
            )
            for form in (word.plain, f"{word.stem}*")
            for rest in self._by_first.get(form, ())
        )
