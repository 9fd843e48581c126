"""Times in German, Spanish, French, Portuguese, Chinese and Japanese, as the English for them.

Only what has one meaning: "morgen" and "mañana" are mornings too, "heute" is also "nowadays".
"""

from typing import Final

_AGO: Final = r"(?:vor|hace|il y a|há) (\d{1,3}) "
_LAST: Final = "letzte[nrs]? "
_FRENCH: Final = "(?:nous|vous|ai|ont|été|le|la|les|une) "
# The words, between signs; what is written without blanks; the English for both.
_TABLE: Final = (
    ("vorgestern|anteayer|avant-hier|anteontem", "一昨日|おととい", "the day before yesterday"),
    (r"gestern|ayer|ontem|(?<=d')hier|hier (?=soir|matin)", "昨[天日]", "yesterday"),
    # In German, "hier" is "here".
    (rf"(?P<keep>{_FRENCH}(?:[^\s.!?]{{1,30}} ){{0,9}})hier", "", "yesterday"),
    (rf"hier(?=,?(?: [^\s.!?]{{1,30}}){{0,9}} {_FRENCH})", "", "yesterday"),
    ("", "上上个?(?:周|星期)|先々週", "the week before last"),
    (f"{_LAST}woche|semana pass?ada|semaine dernière", "(?<!以)上个?周(?!期)|先週", "last week"),
    (f"{_LAST}monats?|m[eê]s pass?ado|mois dernier", "(?<!以)上个月|先月", "last month"),
    (f"{_LAST}jahr(?:es)?|a[ñn]o pass?ado|l'année dernière", "(?<!过)去年|昨年", "last year"),
    ("diese[rn]? woche|n?esta semana|cette semaine", "(?<!基)[本这]周(?!期)|今週", "this week"),
    ("diese[ns] monats?|n?este m[eê]s|ce mois-ci", "这个月|今月", "this month"),
    ("nächste[nr]? woche|semana que v(?:iene|em)", "(?<![以下])下个?周(?!期)|来週", "next week"),
    ("semaine prochaine", "", "next week"),
    ("nächste[ns] monats?|m[eê]s que v(?:iene|em)", "(?<!以)下个月|来月", "next month"),
    (
        rf"{_AGO}(?:tage?n?|d[íi]as?|jours?)",
        r"(?<!月)(?<!月 )(\d{1,3}) ?[天日]前(?![端后後])",
        "{0} days ago",
    ),
    (rf"{_AGO}(?:wochen?|semanas?|semaines?)", r"(\d{1,3}) ?(?:周|週間)前", "{0} weeks ago"),
    (r"(\d\d?)[./](\d\d?)[./]((?:19|20)\d\d)", "", "{2}-{1:0>2}-{0:0>2}"),
    ("", r"((?:19|20)\d\d) ?年 ?(\d\d?) ?月 ?(\d\d?) ?日", "{0}-{1:0>2}-{2:0>2}"),
)
TRANSLATIONS: Final = tuple(
    (pattern, english)
    for words, signs, english in _TABLE
    for pattern in (words and rf"(?<![\w-])(?:{words})(?!\w)", signs and rf"(?<!\d)(?:{signs})")
    if pattern
)
"""Patterns with templates for their groups."""
