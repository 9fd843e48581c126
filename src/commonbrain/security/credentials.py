"""Credentials that are named: in sentences, in commands and headers, assigned in code.

What names a value and the shape of the value count together, never one alone. A value is a token
of letters with digits or signs; words, versions, paths, addresses, variables and units are none.

- A noun of `NOUNS`, perhaps whose ("of staging", "für die Tür"), a link ("is", "lautet") and it.
- In a sentence on a password, a token near the noun that has the shape of a usual password.
- What opens a lock: a noun or verb of the sort PIN, four to eight digits and the lock's name.
- A login: whose, the user's name and the value.
- A name such as DB_PASSWORD, a sign and the value.

Commands and headers are read by `commonbrain.security.commands`.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from commonbrain.security.commands import find_in_commands
from commonbrain.security.secret_values import (
    PASSWORD_CHARS_MIN,
    SIGNS,
    credential,
    is_no_secret,
    is_strong,
)
from commonbrain.text.patterns import lazy_pattern, lower_case
from commonbrain.text.redaction import SecretMatch

NOUNS: Final = {
    "password": "password pass_phrase passcode passwd pswd pwd pw p/w access_code security_code"
    " unlock_code wi_fi_code seed_phrase recovery_phrase vpn_pass root_pass admin_pass sudo_pass"
    " wi_fi_pass otp_secret otp_seed totp_secret totp_seed 2fa_secret identified_by unlocks_with"
    " +passwort +kennwort zugangscode codewort geheimcode entsperrt_mit contraseña clave"
    " frase_de_paso frase_secreta frase_semilla código_de_acceso código_wi_fi código_del_wi_fi"
    " code_wi_fi desbloquea_con mot_de_passe mdp phrase_secrète phrase_de_passe code_d'accès"
    " code_du_wi_fi déverrouille_avec mima +密码 +密碼 +口令 +暗号 +助记词 +验证码",
    "key": "api_key access_key secret_key account_key encryption_key hmac_key signing_key"
    " deploy_key webhook_key license_key licence_key wpa_key network_key wi_fi_key"
    " activation_key activation_code secret token recovery_code backup_code api_schlüssel"
    " zugangsschlüssel lizenzschlüssel wlan_schlüssel netzwerkschlüssel zugangstoken"
    " zugriffstoken wiederherstellungscode sicherungscode clave_de_api clave_de_la_api clave_api"
    " secreto código_de_recuperación código_de_respaldo clé_api clé_d'api clé_wi_fi clé_wpa"
    " clé_secrète clé_d'accès jeton code_de_secours code_de_récupération clé_de_licence"
    " clave_de_licencia miyao +密钥 +密鑰 +令牌 +恢复码 +恢复代码 +备用码 +备份码",
    "PIN": "code pin pin_code puk combination combo padlock lockbox off_with off_using"
    " opens_with open_with unlocks_using disarm_with punch_in key_in tippe tippen marca pulsa"
    " tape tapez compose composez geheimzahl zahlenschloss zahlenkombination kombination"
    " vorhängeschloss türcode torcode tresorcode alarmcode hauscode geht_mit aus_mit öffnet_mit"
    " código combinación candado abre_con quita_con desactiva_con digicode combinaison cadenas"
    " ouvre_avec coupe_avec +门禁码 +取款码 +输入 +按",
    "login": "log_in logs_in sign_in signs_in signed_in logged_in logging_in account credential"
    " cred basic_auth admin root access_to connect get_in gets_in wi_fi wlan ssid anmeldung"
    " zugangsdaten anmelden melde einloggen benutzer zugang +konto usuario acceso cuenta entra"
    " entrar sesión credenciale identifiant compte connexion connecte connecter connecté"
    " connecte-toi +账号 +帐号 +用户名 +登录",
}
"""What a value belongs to, by the sort of the value: the words of user interfaces.

A "_" stands for a space, a hyphen, an underscore or nothing; accents may be missing. Words with a
"+", Chinese ones and those of German compounds, follow others without a space.
"""
_ASCII: Final = {
    **{letter: f"[{letter}{plain}]" for letter, plain in zip("éèíóáñ", "eeioan", strict=True)},
    **{letter: f"(?:{letter}|{plain}e?)" for letter, plain in zip("äöü", "aou", strict=True)},
    "_": "s?[ _-]?",
    "'": "['’]",  # noqa: RUF001
}


def _any_of(words: Iterable[str]) -> str:
    """Write words as a pattern, which is faster if those of one first letter stand together."""
    # Of two that begin alike, the longer one is tried first.
    groups = (
        f"{first}(?:{'|'.join(word[1:] for word in group)})"
        for first, group in groupby(sorted(words, reverse=True), key=itemgetter(0))
    )
    return "|".join(groups).translate(str.maketrans(_ASCII))


def _noun(sort: str) -> str:
    words = NOUNS[sort].split()
    joined = _any_of(word[1:] for word in words if word[0] == "+")
    # A noun is neither a name in code such as token_type nor a part of a compound.
    spaced = rf"(?<![\w$./])(?<![\s-]-)(?:{_any_of(word for word in words if word[0] != '+')})"
    return rf"(?P<{sort}>(?:{spaced}|{joined})(?:(?<=[一-鿿])|e?s?(?![\w-])))"


_NOUN: Final = lazy_pattern("|".join(map(_noun, NOUNS)))
_PASSWORD_NAMES: Final = "password passwd passphrase pwd"  # noqa: S105
_KEY_NAMES: Final = (
    "secret token credential api_key access_key auth_key secret_key private_key signing_key"
    " encryption_key master_key account_key"
)
_OTHER_NAMES: Final = f"{NOUNS['password']} {NOUNS['key']} pass psk requirepass".replace("+", "")
"""Names that are words of other meanings, too."""
_EVERY: Final = " ".join((*NOUNS.values(), _PASSWORD_NAMES, _KEY_NAMES, _OTHER_NAMES)).split()
# Looked ahead for: in "vpn password" the begin of "vpn_pass" must not hide the next noun.
_START: Final = lazy_pattern(f"(?={_any_of({word.strip('+')[:5].rstrip('_') for word in _EVERY})})")
"""The begins of all nouns and names; a search for them costs less than one for their patterns."""
_LOCK: Final = lazy_pattern(
    r"(?<!b)lock|door|gate|safe|alarm|card|shed|barn|entrance|entry|building|gym|cabin|cellar"
    r"|cupboard|barrier|house|flat\b|apartment|keypad|suitcase|vault|\bsim\b|phone|tablet|access"
    r"|tür|tor\b|tresor|schloss|schrank|karte|keller|garage|haus|eingang|schuppen|handy|telefon"
    r"|koffer|zugang|puerta|port[oó]n|portal|caja|candado|tarjeta|entrada|garaje|edificio|trastero"
    r"|taquilla|móvil|almacén|acceso|porte|portail|coffre|immeuble|carte|entrée|cave\b|casier"
    r"|barrière|grille|téléphone|[门锁柜箱卡库闸楼]"
    r"|^(?:pin|puk|geheimzahl|zahlen|digicode|padlock|candado|cadenas|vorhänge|门禁码|取款码)"
)
"""What a code of digits opens."""
_OTHER_CODE: Final = lazy_pattern(
    r"\b(?:error|exit|status|zip|area|country|promo|booking|voucher|discount|product|bar|qr|source"
    r"|dress|colou?r|http|return|response|fault|fehler|order|postal|erreur|estado|pays|país"
    r"|article|part|tax|course|unit|invoice|gpio|item|sort)\b"
)
"""Words with a code that nobody types to get in."""
_TOKEN: Final = r"[^\s\"'`“”„«»「」『』,;<>\[\]，。；、！？（）一-鿿]{4,200}"  # noqa: RUF001, S105
_WHOSE: Final = (
    r"(?: \([^()\n]{1,30}\)|(?: (?:of|for|to|on|at|in|from|behind|der|des|für|fürs|vom|von|am|im"
    r"|zum|zur|de|del|para|du|pour|sur|seiner|ihrer|meiner)\b|['’]s\b| d['’])"  # noqa: RUF001
    r"[^\n.!?:;=,()\[\]]{1,60}?)?"
)
_LINK: Final = (
    r"(?:'s | ?[:：]\s{0,8}| ?(?:->|→| - | – ) ?|, (?=\d{5})"  # noqa: RUF001
    r"|,? (?:(?:is |was )?(?:changed|reset|set) to|is|was|remains|ist|war|sind|bleibt|lautet"
    r"|heißt|auf|es|era|son|siendo|est|c'est"
    r"|reste|à|por|par) (?:still |now |noch |jetzt |todavía |ahora |toujours |le |el |la )?"
    r"|[^\W\d_]{0,2}[是为叫成了] ?|(?<=[码令]) ?| (?='))"
)
_LINKED: Final = lazy_pattern(rf"{_WHOSE}{_LINK}[\"'`“„«「]?(?P<value>{_TOKEN})")
_CLAUSE_END: Final = (
    r"(?=[\"'”“»」.,;!?)]*(?: *$| \(|(?<=[.,;!?)]) )|[，。；]"  # noqa: RUF001
    r"| (?:and|then|for|at|on|but|so|or|und|dann|für|am|an|y|para|en|et|pour|puis)\b)"
)
"""After a number: a unit or another word would make it an amount."""
_NUMBER: Final = lazy_pattern(
    rf"(?!(?:19|20)\d\d-)(?:\d-?){{4,24}}[#*]?{_CLAUSE_END}", re.MULTILINE
)
_PIN: Final = lazy_pattern(
    rf"{_WHOSE}(?:(?P<link>{_LINK})|(?: (?!is|es)[^\W\d_]{{2,12}})? \(?)"
    r"[\"'`“„]?(?P<value>[a-z]?\d{4,8}[#*a-z]?|\d{1,2}(?:[ -]\d{1,2}){2,3}|\d{1,4}[a-z]\d{1,4})"
    rf"(?![\w%/-]|[.,]\d){_CLAUSE_END}",
    re.MULTILINE,
)
_PHRASE: Final = lazy_pattern(
    rf"{_WHOSE}{_LINK}"
    r"[“„«「\"]?(?P<value>(?:(?<=[“„«「\"])(?:[^\W\d_]+ ){2,12}[^\W\d_]+"
    r"|(?<=[“„«「\"])[一-鿿]{4,20}"
    r"|[^\W\d_]{3,15}(?: [^\W\d_]{2,15}){3,23})(?=[\"”“»」]?(?:[.,;，。；]|$)))",  # noqa: RUF001
    re.MULTILINE,
)
_SENTENCE: Final = lazy_pattern(
    r"\b(?:the|than|for|at|to|by|from|on|in|of|with|as|be|must|should|are|not?|enough|when|if|that|or"
    r"|see|ask|use|words?|letters|only|still|never|always|too|very|so|we|you|it|siehe|nicht|wird|vom"
    r"|immer|zu|wörter|nur|muy|no|está|se|que|siempre|palabras|pas|trop|bien|voir|toujours|chez|mots"
    r"|doit)\b|^\w+(?:ed|ing|ly|ada|ado|ida|ido|ée?)\b"
)
"""What a sentence about a passphrase has, and a passphrase has not."""
_WORD: Final = lazy_pattern(
    rf"{_WHOSE}(?: (?:is|ist|es|est) [\"'`“„«](?P<quoted>[a-z]{{5,30}})[\"'`“”»]"
    r"| (?:lautet|heißt) [\"'`“„«]?(?P<literal>[^\W\d_]{4,40})(?=[\"'“.,;]|$)"
    r"| (?P<long>[a-z]{18,40})(?=[ .,;!]|$))",
    re.MULTILINE,
)
_NEAR: Final = lazy_pattern(rf"(?<![^\s\"'`(“„«「：:，])(?P<value>{_TOKEN})")  # noqa: RUF001
_NEAR_CHARS: Final = 40
_PASSWORD_SIGNS: Final = frozenset("!$%^*")
"""Signs that hardly anything but a password has within; a login is near to many other names."""
_NAMED: Final = lazy_pattern(r"[A-Z\d_.:-]+|[\da-f]{7,64}\W?")
"""Tickets, errors and products, which are uppercase with a number, and hashes."""
_PLACED: Final = lazy_pattern(
    r"\b(?:for|of|on|at|in|from|by|via|since|until|für|von|vom|bei|im|in|seit|de|del|para|en|desde"
    r"|du|pour|sur|au|chez|dans|depuis|and|und|y|et|or|commit|version|users?"
    r"|field|id|passwords? to) $"
)
"""Words before a host, a program, a day or a user."""
_PLACED_CHARS: Final = 14
_SENTENCE_END: Final = lazy_pattern(r"[.!?;] |[\n。；！？]")  # noqa: RUF001
_LOGIN: Final = lazy_pattern(
    r"(?:(?:[^\n.!?;。；！？]{0,60}?(?: (?:is|are|ist|sind|es|son|est|sont"  # noqa: RUF001
    r"|with|as|using|con|como|mit|als|avec) "
    r"| ?[:：] ?|是|用 ?)| )(?P<user>[^\s,，、:/]{2,60})"  # noqa: RUF001
    r"(?P<sign> ?/ ?|:| (?:and|with|und|mit|y|con|et|avec) )"
    r"|[^\n.!?;]{0,40}? (?:auf|reset to) )"
    rf"[\"'`]?(?P<value>{_TOKEN})"
)
_NEXT: Final = lazy_pattern(rf",? (?P<value>{_TOKEN})")
# The name may be part of a longer one, such as DB_PASSWORD or client-secret.
_ASSIGNED: Final = lazy_pattern(
    rf"(?:(?P<password>{_any_of(_PASSWORD_NAMES.split())})|{_any_of(_KEY_NAMES.split())}"
    rf"|(?<![A-Za-z\d])(?P<other>{_any_of(_OTHER_NAMES.split())}))"
    r"(?:_(?:key|value|hash|access_key|bdd?|db|smtp|api|app|admin|root))?"
    r"[\"'`*]{0,2}"
    r"(?P<sign>[ \t]{0,3}(?:=>|:=|={1,2}|:)\*{0,2}[ \t]{0,3}|[ \t]{1,9}value=|>(?=[^\s<]{4,99}</)"
    r"|[ ](?:to|is|auf|ist)[ ])"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`,;<>，。；]{4,500})",  # noqa: RUF001
    re.IGNORECASE,
)
_BARE: Final = lazy_pattern(r"[A-Za-z_][\w-]*(?:[.:][A-Za-z_][\w-]*)*\W?")
"""A word or a dotted name, which code and prose have after the same operators."""
_WITH: Final = ("with", "mit", "con", "avec")
_LOGIN_CHARS_MIN: Final = 6
"""Shorter ones are names such as SigV4."""
_KEY_CHARS_MIN: Final = 8
_SECRET_CHARS_MIN: Final = 12
"""Tokens are generated and never shorter."""
_LIST_MAX: Final = 20
_AFTER_VALUE: Final = ".:)]}?"
_NEXT_CHARS: Final = 12
_LOCK_CHARS: Final = 60
"""How far before its code a lock may be named."""


def find_credentials(text: str) -> Iterator[SecretMatch]:
    """Find the values of credentials that are named, in no order; they may overlap.

    Time is linear in the length of the text: what is read around a name is bounded.
    """
    lower = lower_case(text)
    yield from find_in_commands(text, lower)
    done = 0
    for place in (start.start() for start in _START.finditer(lower)):
        if noun := _NOUN.match(lower, place):
            yield from _after_noun(text, noun)
        # A name within a value is read no second time, or hostile text would cost too much.
        if place >= done and (name := _ASSIGNED.match(text, place)):
            yield from _assigned(name)
            done = name.start("value") if name["sign"].strip().isalpha() else name.end()


def _after_noun(text: str, noun: re.Match[str]) -> Iterator[SecretMatch]:
    lower, end = noun.string, noun.end()
    match noun.lastgroup:
        case "PIN":
            value = _PIN.match(lower, end)
            if value and _is_lock_code(noun, value):
                yield credential("PIN", value)
        case "login":
            if (value := _LOGIN.match(lower, end)) and _is_login(text, value):
                yield from _if_strong(text, value, sort="password")
            yield from _near(text, noun)
        case sort:
            is_password = sort == "password"
            sort = "password" if is_password else "assigned secret"
            if value := _LINKED.match(lower, end):
                yield from _if_strong(text, value, sort=sort, has_pin=True)
            if is_password:
                yield from _words(text, noun)
                yield from _near(text, noun)
            elif lower[end : end + 1] == " " and (value := _NEAR.match(lower, end + 1)):
                yield from _if_strong(text, value, sort=sort, is_adjacent=True)


def _near(text: str, noun: re.Match[str]) -> Iterator[SecretMatch]:
    """Find a usual password near its noun, in any words of the same sentence."""
    lower = noun.string
    sentence = _sentence_around(lower, noun.span(), chars=_NEAR_CHARS)
    for value in _NEAR.finditer(lower, *sentence):
        start, end = value.span("value")
        is_near = noun.lastgroup == "password" or not _PASSWORD_SIGNS.isdisjoint(value["value"])
        is_apart = end <= noun.start() or start >= noun.end()
        if (
            is_near
            and is_apart
            and noun[0] not in value["value"]
            and not _NAMED.fullmatch(text, start, end)
            and not _PLACED.search(lower, max(start - _PLACED_CHARS, 0), start)
        ):
            yield from _if_strong(text, value, sort="password", is_adjacent=True)


def _is_lock_code(noun: re.Match[str], value: re.Match[str]) -> bool:
    lower, end = noun.string, value.end()
    sentence = _sentence_around(lower, (noun.start(), end), chars=_LOCK_CHARS)
    is_other = _OTHER_CODE.search(lower, sentence[0], end)
    if noun[0].startswith(("cod", "cód")) and not value["link"]:
        # A number that only follows is a code if the lock is next to its noun: "gate code 4471".
        sentence = max(sentence[0], noun.start() - _NEXT_CHARS), value.start("value")
    return not is_other and bool(_LOCK.search(lower, *sentence) or _LOCK.match(noun[0]))


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
    is_phrase = "phrase" in noun[0] or "frase" in noun[0] or not noun[0].isascii()
    if is_phrase and (phrase := _PHRASE.match(lower, noun.end())):
        if not _SENTENCE.search(phrase["value"]):
            yield credential("password", phrase)
    elif noun[0] != "clave" and (word := _WORD.match(lower, noun.end())):
        group = word.lastgroup or "quoted"
        value = text[slice(*word.span(group))]
        # German has nouns of this length, with a capital.
        is_value = {"literal": str.istitle, "long": str.islower}.get(group, bool)(value)
        if is_value and not is_no_secret(value):
            yield credential("password", word, group=group)


def _is_login(text: str, match: re.Match[str]) -> bool:
    """Whether a user's name and a value are joined as a login, not as two of a kind."""
    value, user, sign = text[slice(*match.span("value"))], match["user"] or "", match["sign"] or ""
    is_user = any(map(str.isdigit, user))
    has_sign = not SIGNS.isdisjoint(value)
    # "The account is linked with Name2024" speaks of a program.
    is_mixed = has_sign or (sign.strip() not in _WITH and value.lower() != value != value.upper())
    return len(value) >= _LOGIN_CHARS_MIN and ("/" in sign or (is_mixed and not is_user))


def _if_strong(
    text: str,
    match: re.Match[str],
    *,
    sort: str,
    is_adjacent: bool = False,
    has_pin: bool = False,
) -> Iterator[SecretMatch]:
    start, end = match.span("value")
    value = text[start:end].rstrip(_AFTER_VALUE)
    end = start + len(value)
    if sort != "password" and len(value) < _KEY_CHARS_MIN:
        return
    is_pin = has_pin and _NUMBER.match(text, start)
    if not is_pin and not is_strong(value, is_adjacent=is_adjacent):
        return
    yield SecretMatch(sort=sort, start=start, end=end)
    # Recovery codes come in lists.
    for _ in range(_LIST_MAX):
        after = _NEXT.match(text, end)
        code = after["value"].rstrip(_AFTER_VALUE) if after else ""
        if not after or len(code) != len(value) or not is_strong(code, is_adjacent=True):
            return
        start = after.start("value")
        end = start + len(code)
        yield SecretMatch(sort=sort, start=start, end=end)


def _assigned(match: re.Match[str]) -> Iterator[SecretMatch]:
    """Find the value assigned to a name such as `password`."""
    value = match["value"].rstrip(".)]}:")
    sort = "password" if match["password"] or match["other"] else "assigned secret"
    # An uppercase name before "=" is a variable of the environment, no word of a sentence.
    is_strict = match["other"] and not (match["sign"] == "=" and match["other"].isupper())
    if match["sign"].strip().isalpha():
        # "DB_PASSWORD is ..."; "the password is ..." is read as a sentence.
        if match.string[match.start() - 1 : match.start()] != "_":
            return
        is_strict = True
    is_secret = is_strong(value, is_adjacent=False) if is_strict else _is_assigned(match, value)
    if is_secret:
        start = match.start("value")
        yield SecretMatch(sort=sort, start=start, end=start + len(value))


def _is_assigned(match: re.Match[str], value: str) -> bool:
    """Whether a value assigned to such a name is a secret, not a word about it."""
    is_password, is_quoted = bool(match["password"] or match["other"]), bool(match["quote"])
    is_short = len(value) < (PASSWORD_CHARS_MIN if is_password else _SECRET_CHARS_MIN)
    if is_short or is_no_secret(value):
        return False
    is_word = _BARE.fullmatch(value) is not None
    if any(map(str.isdigit, value)) and any(map(str.isalpha, value)):
        return is_quoted or "." not in value or not is_word
    # Letters alone are a password only in quotes or without blanks around the sign, since code
    # has those: `self.password = password`.
    is_value = is_quoted or (match["sign"] in {"=", "=>", ":="} and value.isalpha())
    return is_password and (is_value or value.isdigit() or not is_word)
