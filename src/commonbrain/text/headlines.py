"""Headlines: the clause of a text that carries its content.

A text is read line by line. Each sentence of prose is a candidate, scored by its names, numbers,
uncommon words and verb; greetings, questions and headings score low. Code, tables and front matter
give a candidate only for want of a better one. Reading stops at the first candidate that says
enough, and after a fixed number of lines and candidates, so the time does not grow with the text.

Every pattern is linear on hostile text: none repeats within a repeat over the same characters.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.text.clauses import has_verb, is_order, verb_at, words
from commonbrain.text.patterns import lazy_pattern

_LINES_MAX: Final = 150
_LINE_CHARS_MAX: Final = 2000
_SENTENCE_CHARS_MAX: Final = 600
_CANDIDATES_MAX: Final = 24
_CODE_LINES_MAX: Final = 20
_ENOUGH: Final = 4.5
"""A candidate with this score is taken without reading on."""
_LATER: Final = 0.5
"""What each candidate before one costs it, up to five of them."""
_LATER_MAX: Final = 5


def derive_headline(body: str) -> str:
    """Derive a headline within the limits of words and characters; empty only for a blank text."""
    best, score_of_best = None, 0.0
    for place, one in enumerate(islice(_candidates(body), _CANDIDATES_MAX)):
        score = one.bonus + _score(one.text) - _LATER * min(place, _LATER_MAX)
        if best is None or score > score_of_best:
            best, score_of_best = one, score
        if score >= _ENOUGH:
            break
    # A fence without code has no candidate; its language is better than its backticks.
    return (
        _fitted(best, body) if best else shorten_to_headline(_FENCES.sub(" ", body).strip() or body)
    )


def shorten_to_headline(text: str) -> str:
    """Return one line within the limits of a headline: the text, or what it mainly says."""
    line = " ".join(text[:_LINE_CHARS_MAX].split())
    return line if _fits(line) else _shortened(line[:_SENTENCE_CHARS_MAX])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    text: str
    bonus: float = 0.0
    """Added to the score of its words."""
    label: str = ""
    """The speaker or label before the sentence's line."""


# Reading lines.

_FENCE: Final = lazy_pattern(r"[ \t]{0,3}(?:```[^`]*$|~~~)")
"""A line that opens or closes a block; backticks within one line are inline code."""
_FENCES: Final = lazy_pattern(r"(?:```|~~~)")
_LIST_MARKER: Final = lazy_pattern(r"^\s*(?:[-*+•>]\s+|#{1,6}\s+|\(?\d{1,3}[.)]\s+|\[[ xX]?\]\s+)+")
_RULE: Final = lazy_pattern(r"[\s|:+=_*-]+")
"""A line of signs: a separator of a table, or the line below a heading."""
_HEADING: Final = lazy_pattern(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$)")
_QUOTED: Final = lazy_pattern(r"^\s*>")
_SKIPPED: Final = lazy_pattern(
    r"\s*(?:<!--|\[?!\[|<?https?://\S+>?\s*$|Traceback \(most recent|File \"[^\"]*\", line \d"
    r"|commit [0-9a-f]{7,40}\b"
    r"|(?:From|To|Cc|Bcc|Date|Sent|Author|AuthorDate|Committer|Reply-To|Message-ID|Reporter"
    r"|Assignee|(?:Signed-off|Co-authored|Reviewed|Acked|Tested)-by):\s"
    r"|On [^\n]{5,120} wrote:\s*$)",
)
"""Lines that say who and when, and lines without words."""
_CLOSING: Final = lazy_pattern(
    r"\s*(?:--|(?:with )?(?:best|kind|warm|many)?\s?(?:regards|wishes|thanks)|best|cheers|thx"
    r"|yours(?: \w+)?|sincerely|mit freundlichen \w+)\s?[,!.]?(?: [A-Z]\w*)?\s*",
    re.IGNORECASE,
)
"""The line after which only names follow."""
_CLOSING_LINES_MAX: Final = 8
_LABEL: Final = lazy_pattern(r"([A-Z][\w.'-]{0,30}(?: [A-Z][\w.'-]{0,30}){0,2}):\s+(?=\S)")
"""A speaker, or a label such as `Cause`."""
_CONTINUED: Final = lazy_pattern(r" {0,3}[a-z(`]")
_WRAPPED_CHARS_MIN: Final = 60
_LINE_ENDS: Final = (".", "!", "?", ":", ";", "|", "{", "}")
_FRONT_MATTER: Final = frozenset({"---", "+++"})
_FRONT_LINES_MAX: Final = 40
_TITLE: Final = lazy_pattern(r"title\s*[:=]\s*[\"']?([^\"'\n]+)", re.IGNORECASE)
_UNDERLINE_CHARS_MIN: Final = 3
_EMPHASIS: Final = lazy_pattern(r"(?<!\w)\*\*([^*\n]+)\*\*(?!\w)")

_CLOCK: Final = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_NOT_SUBJECT: Final = r"(?!(?:is|was|are|were|will|to|and|or|until|in|on)\b|[-\u2013]\s)"
_LOG_PREFIX: Final = lazy_pattern(
    rf"(?:\[?\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}\s?(?:Z|UTC|[+-]\d\d:?\d\d)?)?\]?[,:]?\s+"
    rf"{_NOT_SUBJECT}"
    rf"|\[?{_CLOCK}\]?[,:]?\s+{_NOT_SUBJECT}"
    rf"|(?:<\d{{1,3}}>)?[A-Z][a-z][a-z]\s{{1,2}}\d{{1,2}} {_CLOCK}\s+(?:\S+ [\w./-]+\[\d+\]:\s+)?"
    rf"|[EIWF]\d{{4}} {_CLOCK}\s+\d+ \S+\]\s+"
    r"|\[?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE)\b\]?"
    r"(?::\w[\w.]*:)?[:\s-]*(?=\w)"
    r"|\[[\w./:-]{1,40}\]\s+"
    r"|[a-z_$]\w*(?:\.[\w$]+)+ - "
    r"|npm ERR! )"
)
_PREFIXES_MAX: Final = 6
_LEVELS: Final = {"TRACE": -2.0, "DEBUG": -2.0, "ERROR": 2.0, "FATAL": 2.0, "CRITICAL": 2.0}
_LOGFMT: Final = lazy_pattern(r"(?:^|\s)msg=\"([^\"]+)\"")
_EXCEPTION: Final = lazy_pattern(r"[\w.]*(?:Error|Exception)\b: ")
_COMMAND: Final = lazy_pattern(r"\s*(?:[$%] |[\w.]+\([^()]*\);?\s*$)")
_SUBJECT: Final = lazy_pattern(r"(?:(?:subject|re|fwd?|aw|wg):\s+)+", re.IGNORECASE)
_TAG: Final = r"(?:@[^\W\d_][\w.-]*(?:\([^()\s]*\))?|#[^\W\d_][\w-]*|\[(?:decision|insight|todo)\])"
_TAGS_BEFORE: Final = lazy_pattern(rf"^(?:{_TAG}[:,]?\s+)+(?=\S)", re.IGNORECASE)
_TAGS_AFTER: Final = lazy_pattern(rf"(?<=\S)(?:\s+{_TAG})+\s*$", re.IGNORECASE)
_MARK: Final = lazy_pattern(
    r"(?:(?<=\s)|^)@(?:decision|convention|insight|remember|todo)\b(?:\([^()\s]*\))?:?[ \t]*"
)
"""A tag in a line: what follows is what its author wants to keep."""
_MARKED: Final = 3.0


@dataclass(slots=True)
class _Rest:
    """What gives a headline only for want of prose."""

    code: list[str] = field(default_factory=list[str])
    rows: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    title: str = ""

    def candidates(self) -> Iterator[_Candidate]:
        """Return the title of the front matter, a row of a table, a line of code, any line."""
        if self.title:
            yield _Candidate(text=self.title, bonus=-1.0)
        if self.rows:
            yield _Candidate(text=": ".join(map(_as_words, self.rows[:2])), bonus=-4.0)
        yield from (_code(line) for line in self.code)
        for line in self.skipped:
            yield _Candidate(text=line.strip(), bonus=-8.0)


def _candidates(body: str) -> Iterator[_Candidate]:
    rest = _Rest()
    lines = _unwrapped(body.strip().split("\n", _LINES_MAX)[:_LINES_MAX])
    start = _after_front_matter(lines, rest)
    is_fenced = False
    count = 0
    for place in range(start, len(lines)):
        line = lines[place][:_LINE_CHARS_MAX]
        below = lines[place + 1] if place + 1 < len(lines) else ""
        unmarked = _LIST_MARKER.sub("", line)
        if _FENCE.match(line) or _FENCE.match(unmarked):
            is_fenced = not is_fenced
        elif is_fenced:
            _append(rest.code, _QUOTED.sub("", line))
        elif _is_row(line, below, rows=rest.rows) or _is_row(unmarked, "", rows=rest.rows):
            _append(rest.rows, unmarked)
        elif not _RULE.fullmatch(line) and line.strip():
            if count and len(lines) - place <= _CLOSING_LINES_MAX and _CLOSING.fullmatch(line):
                break
            if _SKIPPED.match(line):
                _append(rest.skipped, line)
                continue
            count += 1
            is_heading = bool(_HEADING.match(line)) or _is_underline(below)
            yield from _of_line(line, is_heading=is_heading)
    yield from rest.candidates()


def _unwrapped(lines: Sequence[str]) -> Sequence[str]:
    """Join the lines of a sentence that was wrapped at a fixed width."""
    joined: list[str] = []
    is_fenced = is_open = False
    for line in lines:
        is_fenced ^= _FENCE.match(line) is not None
        if is_open and not is_fenced and _CONTINUED.match(line):
            joined[-1] = f"{joined[-1]} {line.strip()}"
        else:
            joined.append(line)
        is_open = len(line) >= _WRAPPED_CHARS_MIN and not line.rstrip().endswith(_LINE_ENDS)
    return joined


def _append(lines: list[str], line: str) -> None:
    if line.strip() and not _RULE.fullmatch(line) and len(lines) < _CODE_LINES_MAX:
        lines.append(line)


def _after_front_matter(lines: Sequence[str], rest: _Rest) -> int:
    """Return the first line after the front matter, and keep its title."""
    fence = lines[0].strip()
    if fence not in _FRONT_MATTER:
        return 0
    for place, line in enumerate(lines[1:_FRONT_LINES_MAX], 1):
        if line.strip() == fence:
            return place + 1
        if title := _TITLE.match(line):
            rest.title = title[1]
    return 0


def _is_row(line: str, below: str, *, rows: Sequence[str]) -> bool:
    """Return whether a line is a row of a table: it opens with a bar, or has a separator below."""
    if "|" not in line:
        return False
    is_headed = "|" in below and "-" in below and _RULE.fullmatch(below) is not None
    is_below = bool(rows) and rows[0].count("|") == line.count("|")
    return line.lstrip().startswith("|") or is_headed or is_below


def _is_underline(below: str) -> bool:
    bare = below.strip()
    return len(bare) >= _UNDERLINE_CHARS_MIN and bare.strip(bare[0]) == "" and bare[0] in "=-"


def _as_words(row: str) -> str:
    return ", ".join(cell.strip() for cell in row.strip().strip("|").split("|") if cell.strip())


_COMMENT: Final = lazy_pattern(r"\s*(?:#(?!!)|//+|--|/?\*+|;+|\"\"\"|<!--)\s*(?=\w)")
_DEFINITION: Final = lazy_pattern(
    r"\s*(?:export |public |private |async |pub |abstract |static )*"
    r"(?:def|class|fn|func|function|interface|struct|enum|trait|type|create table)\s",
    re.IGNORECASE,
)
_IMPORT: Final = lazy_pattern(r"\s*(?:import|from|use|using|package|require|include|#include)\b")


def _code(line: str) -> _Candidate:
    comment = _COMMENT.match(line)
    if comment:
        return _Candidate(text=line[comment.end() :].strip(), bonus=0.5)
    if _DEFINITION.match(line):
        return _Candidate(text=line.strip().rstrip(" :{"), bonus=-1.0)
    return _Candidate(text=line.strip(), bonus=-6.0 if _IMPORT.match(line) else -4.0)


# From lines to sentences.

_CLOSES: Final = r"(?P<close>[\"'\u201d)\]*]{0,3})"
_BREAK: Final = lazy_pattern(rf"(?<=[.!?…]){_CLOSES}\s+|(?<=[。！？])\s*")  # noqa: RUF001 full-width marks
_ABBREVIATION: Final = lazy_pattern(
    r"(?:^|[\s(])(?:dr|mr|mrs|ms|st|prof|no|vs|approx|fig|cf|ca|e\.g|i\.e|resp|bzw|z\.b|[a-z])\.$",
    re.IGNORECASE,
)
_LEAD_WORD: Final = (
    r"oh|ah|aw+|wow|woo+|woah|hm+|well|yes|yeah|yep|ok|okay|ha(?:ha)+|lol|hey|hi|hello|dear|anyways?|cool"
    r"|great|nice|sure|right|alright|absolutely|exactly|totally|indeed|actually|honestly|basically"
    r"|btw|by the way|(?:just )?so you know|fyi|note|nb|(?:quick )?heads[- ]up"
    r"|(?:just )?a quick note|summary|tl;?dr|til|ps|you know|i mean|come on|thanks?(?: you)?|cheers"
    r"|please note|sorry|important|reminder|good (?:morning|afternoon|evening)|congrat\w*"
)
_LEAD: Final = lazy_pattern(
    rf"\W*(?:(?:{_LEAD_WORD})(?:\s(?:@?[^\W\d_][\w-]*)){{0,2}}?\s?[,!.:;\u2013\u2014]+\s*"
    r"|(?:lol|haha|btw|so basically|basically|anyway)\s"
    r"|i(?:'m| am) (?:so |very )?(?:happy|excited|glad|sorry|pleased) to (?:tell you|say|share)"
    r"(?: that)?\s)(?=\S)",
    re.IGNORECASE,
)
_LEADS_MAX: Final = 3
_SEVERAL: Final = lazy_pattern(r"\S\s+\S")
_VALUE_WORDS_MAX: Final = 2
_FIELD_COSTS: Final = 2.0
"""For a label with a value, such as `Status: resolved`."""
_HEADING_COSTS: Final = -1.5
_QUOTE_COSTS: Final = -1.5
_COMMAND_COSTS: Final = -3.0


def _of_line(line: str, *, is_heading: bool) -> Iterator[_Candidate]:
    """Return the sentences of a line without marks, prefixes and tags."""
    unmarked = _LIST_MARKER.sub("", line).strip()
    bonus = _QUOTE_COSTS * bool(_QUOTED.match(line)) + _COMMAND_COSTS * bool(_COMMAND.match(line))
    if is_heading and not _HOW_TO.match(unmarked):
        bonus += _HEADING_COSTS
    text, bonus_of_log = _without_log_prefix(_FENCES.sub("", unmarked))
    text = _EMPHASIS.sub(r"\1", text)
    if subject := _SUBJECT.match(text):
        text = text[subject.end() :]
    text = _TAGS_AFTER.sub("", _TAGS_BEFORE.sub("", text, count=1), count=1)
    bonus += bonus_of_log + 2.0 * bool(_EXCEPTION.match(text))
    before, mark, after = _at_mark(text)
    if mark:
        yield from _sentences(after, bonus=bonus + _MARKED)
    yield from _sentences(before, bonus=bonus)


def _at_mark(text: str) -> tuple[str, bool, str]:
    match = _MARK.search(text) if "@" in text else None
    if match is None or not text[match.end() :].strip():
        return text, False, ""
    return text[: match.start()].rstrip(" |"), True, text[match.end() :].rstrip(" |")


def _without_log_prefix(text: str) -> tuple[str, float]:
    """Remove timestamps, levels and loggers; return what the level says about the line's weight."""
    bonus = 0.0
    if " msg=" in text and (message := _LOGFMT.search(text)):
        return message[1], bonus
    for _ in range(_PREFIXES_MAX):
        match = _LOG_PREFIX.match(text)
        if match is None or not any(map(str.isalpha, text[match.end() :])):
            break
        bonus += _LEVELS.get(match["level"] or "", 0.0)
        text = text[match.end() :]
    return text, bonus


def _sentences(text: str, *, bonus: float) -> Iterator[_Candidate]:
    """Return the sentences of a line, each with the label before the first."""
    label = ""
    match = _LABEL.match(text)
    if match and not _LEAD.match(text):
        label, text = match[1], text[match.end() :]
    start = 0
    for gap in _BREAK.finditer(text):
        sentence = text[start : max(gap.start(), gap.end("close"))]
        if _ABBREVIATION.search(sentence[-8:]):
            continue
        start = gap.end()
        if sentence.strip():
            yield _candidate(sentence, bonus=bonus, label=label)
    if text[start:].strip():
        yield _candidate(text[start:], bonus=bonus, label=label)


def _candidate(sentence: str, *, bonus: float, label: str) -> _Candidate:
    text = sentence[:_SENTENCE_CHARS_MAX].strip()
    for _ in range(_LEADS_MAX):
        lead = _LEAD.match(text)
        if lead is None or not _SEVERAL.search(text, lead.end()):
            break
        text = text[lead.end() :]
    if label and len(text.split()) <= _VALUE_WORDS_MAX and not has_verb(text):
        bonus -= _FIELD_COSTS
    return _Candidate(text=text, bonus=bonus, label=label)


# Scoring.

_WORD: Final = lazy_pattern(r"[^\W_][\w]*(?:[.,:/@'\u2019+-]\w+)*")
_NAME_SHAPE: Final = lazy_pattern(r"[^_\d/.@:]*[_\d/.@:]|[^A-Z]+[A-Z]|[A-Z]{2}")
_VOCATIVE: Final = lazy_pattern(r",\s+[A-Z]\w*(?: [A-Z]\w*)?\s*[!.?]*$")
_SCORED_WORDS: Final = 40
_CONTENT_MAX: Final = 5.0
"""Long sentences do not win by their length alone."""
_COMMON: Final = frozenset(
    "a an the this that these those my your its our their his her i you he she it we they me him us"
    " them mine yours who whom whose which what when where why how and or but nor so if then than"
    " because as of in on at by with to from for into onto about over under after before between"
    " during until since up down out off through is are was were am be been being has have had do"
    " does did done doing will would can could may might must should shall not no yes never always"
    " now currently roughly also already still just only even any some all every each both few many"
    " more most much very really quite too so such own same other another here there again once"
    " ever soon later today yesterday tomorrow get got gets getting go goes going went gone come"
    " came make made take took see saw seen say said says tell told know knew think thought feel"
    " felt look looks like want wanted need needs let lets thing things stuff something anything"
    " everything nothing lot lots bit way time times day days great good nice cool awesome amazing"
    " wonderful lovely fantastic sweet beautiful thoughtful proud happy glad excited sorry thanks"
    " thank please welcome hope hopes best well okay ok sure yeah worth words word note notes"
    " weekend week busy crazy complicated deal fun kind one two first i'm i've i'd i'll you're"
    " you've it's that's there's we're we've they're don't doesn't didn't can't couldn't won't"
    " isn't wasn't aren't let's what's totally absolutely exactly definitely agree maybe perhaps"
    " basically actually anyway guys everyone everybody team colleagues folks".split()
)
_VAGUE_SUBJECT: Final = lazy_pattern(
    r"(?:it|this|that|these|those|they|she|he|you|your|such|mine|others?|see|her|his|most|anything)"
    r"\b|[a-z]+ (?:it|this|that|them)\b",
    re.IGNORECASE,
)
"""A subject, or an object of an order, that an earlier sentence names."""
_FILLER: Final = lazy_pattern(
    r"(?:many thanks|thank|thx|hope|i hope|(?:so )?glad|good (?:luck|question|point|job|idea|to"
    r"|night|morning|afternoon|evening)|great (?:job|question|idea|to|news)|nice (?:to|work|job)"
    r"|congrat|happy (?:birthday|new year|easter)|merry|welcome|you(?:'re| are) (?:welcome|so|right"
    r"|the best|such|very)|(?:that(?:'s| is| was| sounds| makes)|what a) \S+"
    r"|how(?:'s| are| is| was| have) \S+"
    r"|sounds? \w+|see you|talk (?:soon|to you)|take care|sleep well|no (?:worries|problem|way)"
    r"|my pleasure|what(?:'s| is) up|sorry|apologies|i(?:'m| am) (?:so |really |very )?(?:proud"
    r"|happy|glad|sorry|excited)|i (?:can't|cannot) wait|i see\b|i (?:totally |completely )?agree"
    r"|it(?:'s| is| was| has) (?:been )?(?:so )?\w+[.!]?$|it means|really appreciate|appreciate"
    r"|keep (?:it )?up|well done|way to go|guess what|long time|not much|let me|of course|will do"
    r"|(?:see|as) (?:below|above|discussed)|please (?:note|comment|find)|dear|hi\b|hello|hey|hallo"
    r"|sehr geehrte|liebe[rs]? |guten |to whom|enjoy|you deserve|we missed|do you remember"
    r"|(?:could|can) you|(?:we )?(?:discussed|talked)|a few words|just a|draft|wow|oh|ha(?:ha)+|lol"
    r"|yes|yeah|ok|okay|absolutely|exactly|totally|cheers|quick)\b",
    re.IGNORECASE,
)
_TOPIC: Final = lazy_pattern(
    r"\W*(?:(?:release |meeting )?notes?|summary|overview|background|introduction|context"
    r"|decisions?|agenda|to-?dos?|details|timeline|change-?log|tl;?dr|description|problem|solution"
    r"|conclusion|(?:incident )?report|incident|minutes|goals|motivation|usage|examples?|next steps"
    r"|action items|rationale|references|wip|fix typos?|merge (?:branch|pull request|tag)\b.*"
    r"|post-?mortem\b.*|resolved|started|done|update \d*|urgent|inc-\d+|ticket\b.*|status|closed"
    r"|(?:meeting (?:of|on)|present|attendees|participants)\b.*"
    r"|what (?:happened|did we learn))\W*",
    re.IGNORECASE,
)
"""Lines above a text that say nothing by themselves."""
_TOPIC_COSTS: Final = 6.0
_FILLER_COSTS: Final = 3.5
_QUESTION_COSTS: Final = 3.0
_VERB: Final = 1.5
_NAMED: Final = 1.0
_VAGUE_COSTS: Final = 2.0
_ANNOUNCING_COSTS: Final = 1.0
"""For a sentence that ends in a colon: it announces what follows."""


_HOW_TO: Final = lazy_pattern(r"how to\b", re.IGNORECASE)
"""The opening of a heading that says what its text is for."""


def _score(text: str) -> float:
    """Score what a sentence says by itself."""
    sentence = _VOCATIVE.sub("", text) if "," in text else text
    tokens = _WORD.findall(sentence)[:_SCORED_WORDS]
    content = 0.0
    for place, word in enumerate(tokens):
        plain = word.casefold().replace("\u2019", "'")
        if plain in _COMMON:
            continue
        is_name = (place > 0 and word[0].isupper()) or _NAME_SHAPE.match(word) is not None
        content += 1.0 + _NAMED * is_name
    if not tokens:
        content = 1.0 if any(map(str.isalpha, text)) else -9.0
    score = min(content, _CONTENT_MAX) + 0.1 * max(0.0, min(content - _CONTENT_MAX, 5.0))
    if content and (_HOW_TO.match(sentence) or is_order(sentence) or has_verb(sentence)):
        score += _VERB
    return score - _costs(text)


def _costs(text: str) -> float:
    """Score what makes a sentence a poor headline."""
    bare = text.replace("\u2019", "'").strip("\"'*_ ")
    costs = _QUESTION_COSTS * bare.endswith("?") + _ANNOUNCING_COSTS * bare.endswith(":")
    if _TOPIC.fullmatch(bare):
        costs += _TOPIC_COSTS
    if _FILLER.match(bare):
        costs += _FILLER_COSTS
    elif _VAGUE_SUBJECT.match(bare):
        costs += _VAGUE_COSTS
    return costs


# Shortening.

_INDEPENDENT: Final = lazy_pattern(r"(?:[;:]|\s[\u2013\u2014-])\s+")
_PART: Final = lazy_pattern(r",\s+|(?<!\s)\s+\(|\)[,\s]*")
_DEPENDENT: Final = lazy_pattern(
    r"(?:and )?(?:after|although|though|as|at|because|before|during|even|for|from|given|if|in|just"
    r"|of|on|once|provided|since|so that|though|to|unless|until|when|where|whereas|whether"
    r"|which|while|who|whose|with|without|thanks|i (?:think|guess|believe)|among|by)\b",
    re.IGNORECASE,
)
"""Openings of a sentence whose main clause comes later."""
_CONTINUING: Final = lazy_pattern(rf"(?:or|nor|that)\b|{_DEPENDENT.pattern}", re.IGNORECASE)
"""Openings of a part that belongs to the one before."""
_CLEFT: Final = lazy_pattern(
    r"(?:so )?(?:basically )?(?:what|the (?:problem|thing|reason|cause|result|point|upshot))\b"
    r".*?\b(?:is|was) that\s+(?=\S)",
    re.IGNORECASE,
)
_REPORTED: Final = lazy_pattern(
    r"((?:\S+ ){1,3}?(?:told \S+|said|says|mentioned|explained|learn(?:ed|t)|reported|wrote))\s"
    r".{20,}?\s(that\s[^,;]+)",
    re.IGNORECASE,
)
_STRONG: Final = frozenset(
    "because although though unless provided if when after before while until where which who"
    " since but so whereas that".split()
)
_MODALS: Final = frozenset("will would can could may might must should shall".split())
_WEAK: Final = frozenset("and or with from in of for at by on to about as under over".split())
_WORDS_BEFORE_STRONG: Final = 5
_UNENDING: Final = _WEAK | {"a", "an", "the"}
"""Words that a cut must not end with."""
_PARTS_MAX: Final = 12
_SPACES_MIN: Final = 2
"""A part with fewer is an interjection or the first item of a list."""
_GAP: Final = " … "


def _fitted(one: _Candidate, body: str) -> str:
    short = shorten_to_headline(one.text)
    is_opening = body.startswith((short[:-1], f"{one.label}: {short[:-1]}"))
    capital = short if is_opening else _with_capital(short)
    labelled = f"{one.label}: {capital}"
    return labelled if one.label and _fits(labelled) else capital


def _with_capital(clause: str) -> str:
    """Begin a clause from the middle with a capital; a name such as `npm` stays as it is."""
    is_plain = clause.split(" ", 1)[0] in _COMMON
    return clause[0].upper() + clause[1:] if is_plain else clause


def _fits(text: str) -> bool:
    return len(text) <= HEADLINE_CHARS_MAX and len(text.split()) <= HEADLINE_WORDS_MAX


def _shortened(text: str) -> str:
    """Shorten a sentence at the boundaries of its clauses: subject, verb and value stay."""
    if cleft := _CLEFT.match(text):
        text = text[cleft.end() :]
    clauses = [one for one in _INDEPENDENT.split(text) if one]
    text = max(clauses, key=_score) if len(clauses) > 1 else clauses[0]
    if _fits(text):
        return text
    if (reported := _REPORTED.match(text)) and _fits(_ended(_GAP.join(reported.groups()))):
        return _ended(_GAP.join(reported.groups()))
    parts = [one for one in _PART.split(text, _PARTS_MAX) if one]
    if len(parts) > 1 and _WORD.search(parts[0]):
        return _of_parts(parts, text)
    return _cut_words(text)


def _of_parts(parts: Sequence[str], text: str) -> str:
    subject = parts[0]
    if _DEPENDENT.match(subject):
        main = _main_clause(parts)
        return _from(text, main)
    if not has_verb(subject) and not is_order(subject):
        predicate = _predicate(subject, parts[1:])
        if predicate is not None:
            joined = f"{subject}{_GAP}{predicate}"
            return joined if _fits(joined) else _cut_words(joined)
    return _from(text, subject)


def _main_clause(parts: Sequence[str]) -> str:
    later = [one for one in parts[1:] if not _CONTINUING.match(one)]
    clauses = (
        one for one in later if is_order(one) or (has_verb(one) and not _begins_with_verb(one))
    )
    return next(clauses, None) or max(later or parts[1:], key=_score)


def _predicate(subject: str, parts: Sequence[str]) -> str | None:
    """Return the last part that goes on with the verb of the subject."""
    return next(
        (
            part
            for part in reversed(parts)
            if not _CONTINUING.match(part) and _begins_with_verb(part, after=words(subject)[-1:])
        ),
        None,
    )


def _begins_with_verb(part: str, *, after: Sequence[str] = ("it",)) -> bool:
    tokens = words(part)
    return bool(tokens) and (tokens[0] in _MODALS or verb_at([*after, *tokens]) == len(after))


def _from(text: str, part: str) -> str:
    """Return a text from one part on, as many parts as fit."""
    rest = text[text.index(part) :]
    end = 0
    for gap in _PART.finditer(rest):
        if not _fits(_ended(rest[: gap.start()])):
            break
        end = gap.start()
    if _fits(rest):
        return rest
    return _ended(rest[:end]) if rest.count(" ", 0, end) >= _SPACES_MIN else _cut_words(rest)


def _ended(text: str) -> str:
    return f"{text.rstrip(' ,;:(')}…"


def _cut_words(text: str) -> str:
    """Cut a text at the last word that begins a clause or phrase, or at the limit."""
    tokens = text.split()
    if _fits(" ".join(tokens)):
        return " ".join(tokens)
    most = tokens[:HEADLINE_WORDS_MAX]
    while len(most) > 1 and len(" ".join(most)) >= HEADLINE_CHARS_MAX:
        most.pop()
    following = tokens[len(most)] if len(most) < len(tokens) else ""
    places = [*enumerate(map(str.casefold, most)), (len(most), following.casefold())]
    strong = [
        place
        for place, word in places
        if word in _STRONG and place >= _WORDS_BEFORE_STRONG and places[place - 1][1] not in _WEAK
    ]
    end = strong[-1] if strong else len(most)
    while end > _WORDS_BEFORE_STRONG and places[end - 1][1] in _UNENDING:
        end -= 1
    short = " ".join(most[:end])
    return f"{short[: HEADLINE_CHARS_MAX - 1].rstrip()}…"
