"""Credentials that are named: in sentences, in commands and headers, assigned in code.

What names a value and the shape of the value count together, never one alone:

- A sentence has a noun of `NOUNS`, perhaps a phrase that says whose ("of staging", "für die Tür"),
  a link ("is", "lautet", a colon) and the value: a token of letters with digits or signs. Words,
  versions, paths, addresses, variables and units are none. A PIN has four to eight digits.
- A command or header has the option or place of `COMMANDS`, where a value may be a word.
- Code and settings have a name such as DB_PASSWORD and a sign.

The nouns are those of user interfaces, the options those of the programs' manuals.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from commonbrain.security.commands import find_in_commands
from commonbrain.security.secret_values import (
    PASSWORD_CHARS_MIN,
    SIGNS,
    SecretMatch,
    credential,
    is_no_secret,
    is_strong,
)
from commonbrain.text.patterns import lazy_pattern, lower_case

NOUNS: Final = {
    "en": {
        "password": r"password|pass ?phrase|passcode|passwd|pswd|pwd|pw|p/w|(?:access|wi-?fi) code"
        "|(?:seed|recovery) phrase"
        r"|(?:user [^\s,]{1,40},?|vpn|wi-?fi|root|admin|sudo) pass|(?:otp|totp|2fa) (?:seed|secret)"
        "|(?:protect|encrypt)ed with|unlocks? with",
        "key": r"(?:api|access|secret|account|encryption|hmac|signing|deploy|webhook|licen[cs]e|wpa"
        r"|wi-?fi|network)[- ]?key|key (?:for|of|to) the [^\n.:=]{1,30}?api|secret|token"
        "|(?:recovery|backup) code",
        "PIN": "(?:access|entry|door|gate|alarm|disarm|safe|garage|key ?box|(?:pad)?lock(?:box)?)"
        "[- ](?:code|combination|combo)|pin(?:[- ]?code)?|puk|code|combination|padlock"
        "|(?:lockbox|safe|alarm)(?=[^.;:]{0,30}:)",
        "login": "log ?in|logs in|signs? in|sign(?:ed|ing) in|logg(?:ed|ing) in|account|credential"
        "|cred|access to|connect|(?:wi-?fi|wlan|ssid)(?= ?:)",
    },
    "de": {
        "password": "zugangscode|codewort|geheimcode|(?:geschützt|entsperrt|verschlüsselt) mit",
        "key": "(?:(?:api|zugangs|wlan|netzwerk)[- ]?)?schlüssel|(?:zugangs|zugriffs)token"
        "|(?:wiederherstellungs|sicherungs)code",
        "PIN": "geheimzahl|zahlenschloss|zahlenkombination|vorhängeschloss"
        "|(?:tür|tor|tresor|alarm|haus)code|(?:tresor|alarmanlage)(?=[^.;:]{0,30}:)",
        "login": r"anmeldung|zugangsdaten|anmelden|meld\w{0,3} (?:dich|euch|sich)|einloggen"
        "|benutzer|zugang",
    },
    "es": {
        "password": "contraseña|contrasena|clave|frase (?:de paso|secreta|semilla)"
        "|código (?:de acceso|(?:del )?wi-?fi)|(?:desbloquea|protegid[ao]|cifrad[ao]) con",
        "key": "clave de (?:la )?api|secreto|códigos? de (?:recuperación|respaldo)",
        "PIN": "código|combinación|candado|(?:caja fuerte|alarma)(?=[^.;:]{0,30}:)",
        "login": "usuario|acceso|cuenta|entrar?|sesión|credenciale",
    },
    "fr": {
        "password": "mot de passe|mdp|phrase (?:secrète|de passe|de récupération)"
        "|code (?:d'accès|(?:du )?wi-?fi)"
        "|(?:déverrouille|protégée?|chiffrée?) (?:avec|par)",
        "key": "clé (?:(?:d.)?api|wi-?fi|wpa|secrète|d'accès)|jeton"
        "|codes? de (?:secours|récupération)",
        "PIN": "digicode|combinaison|cadenas|(?:coffre(?:-fort)?|alarme)(?=[^.;:]{0,30}:)",
        "login": "identifiant|compte|connexion|connect(?:er?|e-toi|ez-vous|é)",
    },
    "joined": {
        "password": r"(?:passwort|kennwort)(?![\w-])|密码|密碼|口令|暗号|助记词|验证码",
        "key": "密钥|密鑰|令牌|恢复代?码|备[用份]码",
        "PIN": "门禁码|取款码",
        "login": r"konto(?![\w-])|账号|帐号|用户名|登录",
    },
}
"""What a value belongs to: the nouns of each language by the sort of the value.

Those of `joined`, Chinese and in German compounds, follow other words without a space.
"""
_SPACED: Final = ("en", "de", "es", "fr")


def _nouns() -> Iterator[str]:
    for sort in NOUNS["en"]:
        latin = "|".join(NOUNS[one][sort] for one in _SPACED)
        # Neither a name in code such as token_type nor a part of a compound.
        yield rf"(?P<{sort}>(?<![\w$./])(?<![\s-]-)(?:{latin})s?(?![\w-])|{NOUNS['joined'][sort]})"


_NOUN: Final = lazy_pattern("|".join(_nouns()))
_STARTS: Final = (
    *"pswd p/w pass pw vpn root admin sudo api access secret account licen recovery backup".split(),
    *"token entry door gate alarm safe garage lock padlock pin puk code combina log".split(),
    *"credential cred auth private encryption master psk ssid wifi wi-fi wpa network".split(),
    *"disarm key sign seed otp totp 2fa protect encrypt unlock connect hmac deploy webhook".split(),
    *"kennwort zugang zugriff schlüssel wlan netzwerk wiederherst sicherung geheimzahl".split(),
    *"zahlen vorhänge tür tor tresor haus anmeld meld einlog benutzer konto".split(),
    *"geschützt entsperr verschlüsselt desbloque protegid cifrad déverrouille".split(),
    *"protég chiffré frase contrase clave candado caja códi usuario acceso cuenta entra".split(),
    *"sesión mot mdp phrase clé jeton cadenas coffre digicode identifiant compte connexion".split(),
    *"密 口令 暗号 助记词 验证码 令牌 恢复 备 门禁码 取款码 账号 帐号 用户名 登录".split(),
    "user ",
)
"""The begins of all nouns and names in code; a search for them costs less than their patterns."""
_START: Final = lazy_pattern(
    "|".join(
        f"{first}(?:{'|'.join(start[1:] for start in starts)})"
        for first, starts in groupby(sorted(_STARTS), key=itemgetter(0))
    )
)
_LOCK: Final = lazy_pattern(
    r"door|gate|safe|alarm|lock|card|shed|barn|entrance|entry|building|gym|cabin|cellar|cupboard"
    r"|barrier|house|flat\b|apartment|toilet|keypad|suitcase|vault|\bsim\b|phone|tablet|copier"
    r"|voicemail|wlan|wi-?fi|access|tür|tor\b|tresor|schloss|schrank|karte|keller|garage|haus|eingang"
    r"|schuppen|scheune|schranke|handy|telefon|koffer|kasse|spind|pforte|hütte|zugang|puerta"
    r"|port[oó]n|portal|caja|candado|tarjeta|entrada|garaje|edificio|trastero|taquilla|móvil|maleta"
    r"|verja|cancela|almacén|acceso|porte|portail|coffre|immeuble|carte|entrée|cave\b|casier"
    r"|portillon|barrière|valise|grille|téléphone|hangar|accès|[门锁柜箱卡库闸楼]"
    r"|^(?:pin|puk|geheimzahl|zahlen|digicode|padlock|candado|cadenas|vorhänge|门禁码|取款码)"
)
"""What a code of digits opens."""
_OTHER_CODE: Final = lazy_pattern(
    r"\b(?:error|exit|status|zip|area|country|promo|booking|voucher|discount|product|bar|qr|source"
    r"|dress|colou?r|http|return|response|fault|fehler|order|postal|erreur|estado|pays|país"
    r"|article|part|tax|course|unit|invoice|gpio|item|sort)\b"
)
"""Words with a code that nobody types to get in."""
_WHOSE: Final = (
    r"(?: (?:wi-?fi|wlan|root|admin|ssh|vpn|ftp|smtp|wpa2?)| \([^()\n]{1,30}\))?"
    r"(?:(?: (?:of|for|to|on|at|in|from|behind|der|des|für|fürs|vom|von|am|im|zum|zur|de|del|para"
    r"|du|pour|sur|seiner|ihrer|meiner|unserer)\b|'s\b| d['’])[^\n.!?:;=,()\[\]]{1,60}?)?"  # noqa: RUF001
)
_TOKEN: Final = r"[^\s\"'`“”„«»「」『』,;<>\[\]，。；、！？（）一-鿿]{4,200}"  # noqa: RUF001, S105
_LINKED: Final = lazy_pattern(
    rf"(?:'s |{_WHOSE}(?: ?(?:[:：]|->|→| - | – ) ?"  # noqa: RUF001
    r"| (?:(?:(?:is|was|has been) )?(?:changed|reset|set) to"
    r"|is|was|are|to|remains|ist|war|sind|bleibt|lautet|heißt|auf|es|era|son"
    r"|sigue siendo|est|c'est|reste|a|à|por|par)"
    r" (?:still |now |noch |jetzt |todavía |ahora |toujours |le |el |la )?"
    r"|(?:现在|居然|已经|目前|就|都|也|还|被)?(?:是|为|叫|(?:改|换|设)[成为]了?) ?))"
    rf"[\"'`“„«「]?(?P<value>{_TOKEN})"
)
_ADJACENT: Final = lazy_pattern(rf" ?\(?[\"'`“„«]?(?P<value>{_TOKEN})")
_CLAUSE_END: Final = (
    r"(?=[.,;!?)]? *$|[.,;!?)，。] | \(| (?:and|then|for|at|on|but|so|or|und|dann|für|am"  # noqa: RUF001
    r"|an|y|para|en|et|pour|puis) )"
)
_PIN: Final = lazy_pattern(
    rf"{_WHOSE}(?: (?!is|ist|es)\w{{2,12}})?(?P<link> ?(?:[:：]|->|→) ?|'s | \("  # noqa: RUF001
    r"|,? (?:is|to|ist|auf|lautet|es|est|c'est) "
    r"(?:now |jetzt |ahora |le |el )?| ?(?:是|为) ?|[ ])"
    r"[\"'`“„]?(?P<value>\d{4,8}[#*a-z]?|\d{1,2}(?:[ -]\d{1,2}){2,3}|\d{1,4}[a-z]\d{1,4})"
    rf"(?![\w%/-]|[.,]\d){_CLAUSE_END}",
    re.MULTILINE,
)
_PIN_BEFORE: Final = lazy_pattern(
    r"\b(?P<value>\d{4,8}[#*]?),? (?:is|ist|es|est) (?:the|die|der|das|el|la|le)"
    r"(?: \w{2,10}){0,2} $"
)
_COMMA: Final = lazy_pattern(
    rf"{_WHOSE}, (?P<value>\d{{5,8}}|[^\s,.;:\"'`]{{6,40}})(?=[.,;)]|$)", re.MULTILINE
)
_LITERAL: Final = lazy_pattern(
    r"[^\n.!?:;=\"“„]{0,60}? (?:lautet|heißt) [\"'„“]?(?P<value>[^\W\d]{4,40})(?=[\"'“.,;]|$)",
    re.MULTILINE,
)
"""A word after a verb that nothing but a quotation follows."""
_PHRASE: Final = lazy_pattern(
    rf"{_WHOSE}(?: ?[:：] ?| (?:is|ist|es|est|lautet|heißt) | ?是 ?)"  # noqa: RUF001
    r"[“„«「\"]?(?P<value>(?:(?<=[“„«「\"])(?:[^\W\d_]+ ){2,12}[^\W\d_]+"
    r"|(?<=[“„«「\"])[一-鿿]{4,20}"
    r"|[^\W\d_]{3,15}(?: [^\W\d_]{2,15}){3,23})(?=[\"”“»」]?(?:[.,;，。；]|$)))",  # noqa: RUF001
    re.MULTILINE,
)
_PHRASES: Final = lazy_pattern(
    "pass ?phrase|(?:seed |recovery )?phrase.*|frase.*|密码|口令|暗号|助记词"
)
_SENTENCE: Final = lazy_pattern(
    r"\b(?:the|than|for|at|to|by|from|on|in|of|with|as|be|must|should|are|not?|enough|when|if|that|or"
    r"|see|ask|use|words?|letters|only|still|never|always|too|very|so|we|you|it|siehe|nicht|wird|vom"
    r"|immer|zu|wörter|nur|muy|no|está|se|que|siempre|palabras|pas|trop|bien|voir|toujours|chez|mots"
    r"|doit)\b|^\w+(?:ed|ing|ly|ada|ado|ida|ido|ée?)\b"
)
"""What a sentence about a passphrase has, and a passphrase has not."""
_WORD: Final = lazy_pattern(
    rf"{_WHOSE}(?: (?:is|was|ist|war|es|era|est) [\"'`“„«](?P<quoted>[a-z]{{5,30}})[\"'`“”»]"
    r"|(?<=[码令])(?:是|为|：|:| ) ?(?P<latin>[a-z]{6,30})(?=[，。；]|$)"  # noqa: RUF001
    r"| (?P<long>[a-z]{18,40})(?=[ .,;!]|$))",
    re.MULTILINE,
)
_ABOUT: Final = lazy_pattern(
    r"\w*(?:ed|ing|able|ible|ful|less|al|ive|ous|ic|ory|ary|e[nr]t|est|er|ly|en|é[es]{0,2}|[ai]d[ao]s?|self|where|body|thing)"
    r"|strong|simple|wrong|right|unique|secure|enough|unknown|unset|plain(?:text)?|secret|random"
    r"|default|string|blank|garbage|history|complex|yours|theirs|strict|optional|invalid|fields?|prompt|manager|reset|policy|rules|hash(?:es)?|login|change|auth|access|text"
)
"""Words about a password: participles, adjectives and pronouns, most by their endings."""
_USUAL: Final = lazy_pattern(
    r"(?<![^\s\"'`(“„«「：:，/])(?P<value>(?=\w*[!#$&*+?^])(?=\S*\d)"  # noqa: RUF001
    r"[A-Za-z]\w{2,30}[!#$&*+?^]\w{0,20}"
    r"|(?P<word>[A-ZÀ-Þ][a-zà-ÿ]{3,20}(?:-[A-Z]?[a-z]{2,20}){0,3}-?\d{1,4}|[a-z]{5,20}\d{2,4}))"
    r"(?![\w/@(=-]|\.\w)",
    re.ASCII,
)
"""The usual passwords of people: letters and a number, or with a sign within."""
_USUAL_CHARS: Final = 40
_BREAK: Final = lazy_pattern(r"[,;()]")
_PLACED: Final = lazy_pattern(
    r"\b(?:for|of|on|at|in|from|by|via|since|until|für|von|vom|bei|im|in|seit|de|del|para|en|desde"
    r"|du|pour|sur|au|chez|dans|depuis|and|und|y|et|or) $"
)
"""Words before a host, a program or a day."""
_RESET: Final = lazy_pattern(rf"[^\n.!?;]{{0,40}}? (?:auf|reset to) (?P<value>{_TOKEN})")
_SENTENCE_END: Final = lazy_pattern(r"[.!?;] |[\n。；！？]")  # noqa: RUF001
_LOGIN: Final = lazy_pattern(
    r"(?:[^\n.!?;。；！？]{0,60}?(?: (?:is|are|ist|sind|es|son|est|sont"  # noqa: RUF001
    r"|with|as|using|con|como|mit|als|avec) "
    r"| ?[:：] ?|是|用 ?)| )(?P<user>[^\s,，、:/]{2,60})"  # noqa: RUF001
    rf"(?P<sign> ?/ ?|:| (?:and|with|und|mit|y|con|et|avec) )[\"'`]?(?P<value>{_TOKEN})"
)
_NEXT: Final = lazy_pattern(rf",? (?P<value>{_TOKEN})")
_BEFORE: Final = lazy_pattern(
    rf"(?<!\S)[\"'`]?(?P<value>{_TOKEN})[\"'`]? (?:as|als|como|comme|is|ist|es|est)"
    r"(?: (?!(?:in|on|not)\b)\w{1,10}){0,3} $"
)
_BEFORE_CHARS: Final = 80
_OPENED: Final = lazy_pattern(
    r"(?<!\w)(?:(?P<with>with|con|mit|avec)|using|type|enter|punch in|key in|tippen?|marcas?"
    r"|pulsas?|tape[sz]?"
    rf"|compose[sz]?|输入|按) ?(?:le |el )?(?P<value>\d{{4,8}}[#*]?|\d\d-\d\d-\d\d)"
    rf"(?:{_CLAUSE_END}|(?= auf\b))",
    re.MULTILINE,
)
_OPENS: Final = lazy_pattern(
    r"switched off|\boff\b|opens?\b|unlock|disarm|\bentsperr|débloqu|déverrouill|desbloque"
    r"|\babre|öffnet|geht|\baus\b|quita|ouvre|coupe"
)


_UNIT: Final = lazy_pattern(
    r" ?(?:[kmg]?(?:w|v|wh|hz)\b|char|bit|digit|byte|day|hour|minute|second|week|month|year|time"
    r"|token|user|account"
    r"|attempt"
    r"|zeichen|stell|tag|stund|jahr|car[aá]ct|d[ií]a|hora|veces|jour|heure|fois|位|个|天|次|年|月|字)"
)
"""A number before it is an amount."""
_DATE: Final = lazy_pattern(r"(?:19|20)\d\d-\d\d-\d\d|\d-\d{1,2}|\d{2}-\d{2}")


_NAMES: Final = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credential"
    r"|(?:api|access|auth|secret|private|signing|encryption|master|account)[_-]?key"
)
_OTHER_NAMES: Final = (
    r"pass|pw|passwort|kennwort|contrase[nñ]a|clave|mdp|mot_de_passe|secreto|jeton|psk|requirepass"
)
"""Names that are words of other meanings, too."""
# The name may be part of a longer one, such as DB_PASSWORD or client-secret.
_ASSIGNED: Final = lazy_pattern(
    rf"(?:(?P<name>(?<![A-Za-z])(?:{_NAMES})|(?<=[a-z])(?:Password|Passwd|Pwd|Secret|Token|ApiKey"
    r"|AccessKey))"
    rf"|(?<![^\W_])(?P<other>{_OTHER_NAMES}))"
    r"(?:_(?:key|value|hash|access_key|bdd?|db))?"
    r"[\"'`*]{0,2}[ \t]{0,3}(?P<sign>=>|:=|={1,2}|:)\*{0,2}[ \t]{0,3}"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`,;<>，。；]{4,500})",  # noqa: RUF001
    re.IGNORECASE,
)
_PASSWORD_NAMES: Final = ("pass", "pwd", "pw")
_BARE: Final = lazy_pattern(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*\W?")
"""A word or a dotted name, which code and prose have after the same operators."""
_KEY_CHARS_MIN: Final = 8
_SECRET_CHARS_MIN: Final = 12
"""Tokens are generated and never shorter."""
_PIN_DIGITS: Final = range(4, 13)
_LIST_MAX: Final = 20
_LOCK_CHARS: Final = 60
"""How far before its code a lock may be named."""


def find_credentials(text: str) -> Iterator[SecretMatch]:
    """Find the values of credentials that are named, in no order; they may overlap.

    Time is linear in the length of the text: what is read around a name is bounded.
    """
    lower = lower_case(text)
    yield from find_in_commands(text, lower)
    for match in _OPENED.finditer(lower):
        sentence = _sentence_around(lower, match.span(), chars=_LOCK_CHARS)
        is_opening = not match["with"] or _OPENS.search(lower, *sentence)
        if is_opening and _LOCK.search(lower, *sentence):
            yield credential("PIN", match)
    done = 0
    for place in (start.start() for start in _START.finditer(lower)):
        if noun := _NOUN.match(lower, place):
            yield from _after_noun(text, noun)
        # A name within a value is read no second time, or hostile text would cost too much.
        if place >= done and (name := _ASSIGNED.match(text, place)):
            yield from _assigned(name)
            done = name.end()


def _after_noun(text: str, noun: re.Match[str]) -> Iterator[SecretMatch]:
    lower = noun.string
    match noun.lastgroup:
        case "PIN":
            value = _PIN.match(lower, noun.end())
            before = _PIN_BEFORE.search(lower, max(noun.start() - _LOCK_CHARS, 0), noun.start())
            if before and _LOCK.search(lower[noun.start() : noun.end() + _LOCK_CHARS]):
                yield credential("PIN", before)
            if value and _is_lock_code(noun, value):
                yield credential("PIN", value)
        case "login":
            for pattern in (_LOGIN, _RESET):
                value = pattern.match(lower, noun.end())
                if value and _is_login(text, value):
                    is_adjacent = pattern is _RESET
                    yield from _if_strong(text, value, sort="password", is_adjacent=is_adjacent)
        case "password":
            yield from _linked(text, noun, sort="password")
            before = max(noun.start() - _BEFORE_CHARS, 0), noun.start()
            if value := _BEFORE.search(lower, *before):
                yield from _if_strong(text, value, sort="password")
            yield from _words(text, noun)
            yield from _usual(text, noun)
        case _:
            yield from _linked(text, noun, sort="assigned secret")


def _is_about(word: str) -> bool:
    return _ABOUT.fullmatch(word) is not None or is_no_secret(word)


def _linked(text: str, noun: re.Match[str], *, sort: str) -> Iterator[SecretMatch]:
    lower = noun.string
    has_pin = sort == "password" or "cod" in noun[0] or "码" in noun[0]
    if value := _LINKED.match(lower, noun.end()):
        yield from _if_strong(text, value, sort=sort, has_pin=has_pin)
    if sort == "password" and (value := _COMMA.match(lower, noun.end())):
        yield from _if_strong(text, value, sort=sort, is_adjacent=True, has_pin=True)
    if value := _ADJACENT.match(lower, noun.end()):
        has_pin = not noun[0].isascii() and "码" in noun[0]
        yield from _if_strong(text, value, sort=sort, is_adjacent=True, has_pin=has_pin)


def _is_lock_code(noun: re.Match[str], value: re.Match[str]) -> bool:
    lower = noun.string
    start, end = noun.start(), value.end()
    if _OTHER_CODE.search(lower, max(start - _LOCK_CHARS // 2, 0), end):
        return False
    if _LOCK.search(lower[start : value.start("value")]):
        return True
    # The lock may be named before or after: "for the gate the code is 4471".
    sentence = _sentence_around(lower, (start, end), chars=_LOCK_CHARS)
    return bool(value["link"].strip()) and bool(_LOCK.search(lower, *sentence))


def _sentence_around(text: str, span: tuple[int, int], *, chars: int) -> tuple[int, int]:
    """Return the span of the sentence of a span, at most so many characters to both sides."""
    start, end = span
    first, last = max(start - chars, 0), min(end + chars, len(text))
    for stop in _SENTENCE_END.finditer(text, first, start):
        first = stop.end()
    stop = _SENTENCE_END.search(text, end, last)
    return first, stop.start() if stop else last


def _words(text: str, noun: re.Match[str]) -> Iterator[SecretMatch]:
    """Find a password of plain words, where a sentence would go on in another way."""
    lower = noun.string
    literal = _LITERAL.match(lower, noun.end())
    if literal and text[literal.start("value")].isupper():
        yield credential("password", literal)
    if _PHRASES.fullmatch(noun[0]) and (phrase := _PHRASE.match(lower, noun.end())):
        if not _SENTENCE.search(phrase["value"]):
            yield credential("password", phrase)
    elif noun[0] != "clave" and (word := _WORD.match(lower, noun.end())):
        group = word.lastgroup or "long"
        if group == "long" or not _is_about(word[group]):
            yield credential("password", word, group=group)


def _usual(text: str, noun: re.Match[str]) -> Iterator[SecretMatch]:
    """Find a usual password near its noun, in any words of the same sentence."""
    lower = noun.string
    sentence = _sentence_around(text, noun.span(), chars=_USUAL_CHARS)
    for value in _USUAL.finditer(text, *sentence):
        start = value.start()
        if value["word"] and _PLACED.search(lower, max(start - 10, 0), start):
            continue
        between = lower[noun.end() : start] or lower[value.end() : noun.start()]
        if not value["word"] or not _BREAK.search(between):
            yield from _if_strong(text, value, sort="password")


def _is_login(text: str, match: re.Match[str]) -> bool:
    """Whether a user's name and a value are joined as a login, not as two of a kind."""
    value = text[slice(*match.span("value"))]
    parts = match.groupdict("")
    if "/" in parts.get("sign", ""):
        return True
    is_like_user = any(map(str.isdigit, parts.get("user", "")))
    return not is_like_user and (
        not SIGNS.isdisjoint(value) or value.lower() != value != value.upper()
    )


def _if_strong(
    text: str,
    match: re.Match[str],
    *,
    sort: str,
    is_adjacent: bool = False,
    has_pin: bool = False,
) -> Iterator[SecretMatch]:
    start, end = match.span("value")
    value = text[start:end].rstrip(".:)]}?")
    end = start + len(value)
    if sort != "password" and len(value) < _KEY_CHARS_MIN:
        return
    number = value.replace("-", "").rstrip("#*")
    is_pin = has_pin and number.isdigit() and len(number) in _PIN_DIGITS
    is_pin = is_pin and not _UNIT.match(text, end) and not _DATE.fullmatch(value)
    if not is_pin and not is_strong(value, is_adjacent=is_adjacent):
        return
    yield SecretMatch(sort=sort, start=start, end=end)
    # Recovery codes come in lists.
    for _ in range(_LIST_MAX):
        after = _NEXT.match(text, end)
        if not after or after.end() - after.start("value") != len(value):
            return
        if not is_strong(after["value"], is_adjacent=True):
            return
        start, end = after.span("value")
        yield SecretMatch(sort=sort, start=start, end=end)


def _assigned(match: re.Match[str]) -> Iterator[SecretMatch]:
    """Find the value assigned to a name such as `password`."""
    value = match["value"].rstrip(".)]}")
    name = (match["name"] or match["other"]).lower()
    is_password = name.startswith(_PASSWORD_NAMES)
    is_code = match["sign"] != ":" or bool(match["quote"])
    if match["other"]:
        is_secret = is_strong(value, is_adjacent=False)
    else:
        is_secret = _is_assigned(
            value, is_password=is_password, is_code=is_code, quote=match["quote"]
        )
    if is_secret:
        start = match.start("value")
        sort = "password" if is_password else "assigned secret"
        yield SecretMatch(sort=sort, start=start, end=start + len(value))


def _is_assigned(value: str, *, is_password: bool, is_code: bool, quote: str) -> bool:
    """Whether a value assigned to such a name is a secret, not a word about it."""
    is_short = len(value) < (PASSWORD_CHARS_MIN if is_password else _SECRET_CHARS_MIN)
    if is_short or is_no_secret(value):
        return False
    is_word = _BARE.fullmatch(value) is not None
    if any(c.isdigit() for c in value) and any(c.isalpha() for c in value):
        return bool(quote) or "." not in value or not is_word
    # Letters alone are a password only where code assigns them.
    if is_password and is_code:
        return bool(quote) or not is_word or value.isalpha()
    return is_password and (value.isdigit() or not is_word)
