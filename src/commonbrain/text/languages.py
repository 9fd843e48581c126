"""Whether a text is English, by its script and its function words: English rules read no other.

"Pour" is a preposition elsewhere, "hat" a verb and "on" a pronoun. A text without such words is
read as English: "Port: 8080".
"""

from functools import lru_cache
from typing import Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import NOT_LATIN, UNSPACED
from commonbrain.text.words import FUNCTIONS, MODALS, NEGATIONS, QUANTIFIERS

_CHARS_MAX: Final = 2000
"""A longer text is known by its beginning."""
_CACHED: Final = 512
# The commonest function words of German, Spanish, French, Portuguese, Italian and Dutch, and days.
FOREIGN_FUNCTIONS: Final = frozenset(
    "der die das den dem des ein eine einen einem einer und oder aber nicht kein keine ist sind"
    " wird werden wurde wurden hat hatte haben muss sich wir ihr ich er sie es mit auf aus bei"
    " von vom zum zur zu nach vor bis seit wenn weil als wie auch nur noch nun immer jeden jede"
    " alle im ins ohne durch gestern heute vorgestern letzte letzten el la los las un una y o"
    " pero ni que se está fue han con por para sin sobre del en de desde hasta como más su nos lo"
    " le les este esta cada entre ayer hoy anteayer une du et ou mais est sont ont avec sans sur"
    " dans par chez qui ne pas au aux ce cette il elle nous vous sa ses leur quand depuis uma e é"
    " são com sem da dos na nas ao em até já seu não ontem hoje anteontem gli che è sono ha senza"
    " della dei delle alla nel nella dal di più non ogni ieri oggi het een maar niet geen zijn"
    " wordt werd heeft kan moet zich ik uit voor naar tot dat dit deze ook nog om te gisteren"
    " vandaag".split()
)
_ENGLISH: Final = (FUNCTIONS | MODALS | NEGATIONS | QUANTIFIERS) - set(
    "a all also am an as at do had has her him i in is me no of on or so was we will".split()
)
"""Function words that are no words elsewhere."""
_WORD: Final = lazy_pattern(rf"(?P<run>[{UNSPACED}]+)|(?<![\w./@#$-])[^\W\d_]+(?![\w/@]|['.-]\w)")
"""A run of a script without blanks, or a word that is no part of a path or an identifier."""
_NAME: Final = lazy_pattern(
    r"\b(?:[A-Z]\w{0,20} (?:(?:de|la|las|los|del|van|der|den|von|da|dos|di|le|du|al|el) ){1,3}"
    r"|(?:De|Du|El|La|Las|Le|Los|Van|Von) )(?=[A-Z])"
)
"""How names begin: "Maria de la Cruz", "Jan van der Berg", "Los Angeles"."""


@lru_cache(maxsize=_CACHED)
def is_english(text: str) -> bool:
    """Return whether the rules of English may read a text."""
    english = foreign = 0
    for match in _WORD.finditer(_NAME.sub("", text[:_CHARS_MAX])):
        word, plain = match[0], match[0].lower()
        if match["run"]:
            # About two characters make a word.
            foreign += (len(word) + 1) // 2
        elif plain in FOREIGN_FUNCTIONS:
            # "EST" and "DE" are abbreviations.
            foreign += not word.isupper()
        elif plain in _ENGLISH:
            english += 1
        elif len(word) > 1 and not word.isascii() and word[0] not in "µμ":
            # A name such as "Müller" is one in English, too, and so are microseconds.
            foreign += word.islower() or NOT_LATIN.search(word) is not None
    return foreign <= english
