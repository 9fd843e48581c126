"""Credentials in commands and headers: the option or place names the value, which may be a word.

The options are from the programs' manuals.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from commonbrain.security.secret_values import PLACEHOLDER, credential, is_strong, places_of
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.redaction import SecretMatch

_ARGUMENT: Final = r"[\"']?(?P<value>[^\s\"'|;&<>`，。；]{3,200})"  # noqa: RUF001
_USER: Final = r"[ =]?[\"']?[^\s:,%\"']{1,64}"
_P: Final = r"p(?P<gap>)(?!(?:rotocol|ort|ath|lugin|arallel|rogress|refix|rint|assword|threads?)\b)"
"""The option -p with its value, unless it is one such as -port, -protocol or -pthreads."""
_OPTIONS: Final = {
    "curl": rf"(?:-u|--user|--proxy-user){_USER}:(?P<gap>)",
    "http https xh": rf"(?:-a|--auth){_USER}:(?P<gap>)",
    "mysql mariadb": f"-{_P}",
    "7z rar unrar": f"-h?{_P}",
    "zip unzip mosquitto_ sqlcmd": "-P(?P<gap>[ =]?)",
    "sshpass mongo": "-p(?P<gap>[ =]?)",
    "docker podman helm az": r"login\b[^\n|;&]{0,99}? -p(?P<gap>[ =]?)",
    "redis-cli": "-a(?P<gap>[ =]?)",
    "ldap": "-w(?P<gap>[ =]?)",
    "lftp": rf"-u{_USER},(?P<gap>)",
    "smbclient": rf"-U{_USER}%(?P<gap>)",
    "htpasswd": r"-\w{0,9}b\w{0,9} \S{1,200} \S{1,64}(?P<gap> )",
    "net": r"/user:\S{1,64}(?P<gap> )",
}
"""The option before the value, by the programs' names or their begins."""
_COMMANDS: Final = {
    **{
        program: lazy_pattern(rf"(?<![\w-]){program}[\w-]*[^\n|;&]{{0,200}}? {option}{_ARGUMENT}")
        for programs, option in _OPTIONS.items()
        for program in programs.split()
    },
    "echo": lazy_pattern(
        rf"echo(?: -n)?(?P<gap> ){_ARGUMENT}[\"']? ?\| ?"
        r"(?:sudo(?: -\w{1,9}){0,3} -\w{0,9}S|docker login|passwd\b(?!-)|chpasswd|cryptsetup)"
    ),
    " set ": lazy_pattern(
        r" set [\w.:/-]{0,60}(?:pass|secret|token|(?:api|access)_?key)\w{0,20}"
        rf"(?P<gap> )(?=\S{{0,99}}\d){_ARGUMENT}"
    ),
    **dict.fromkeys(
        ("--", "-storepass", "-keypass", "-password", "-pw "),
        lazy_pattern(
            r"--?(?:(?!ask|no-|use)[a-z]{1,20}-)?(?:(?:store|key|ftp-|ssh-|smtp-)pass|pw"
            r"|pass(?:word|wd|phrase)|token|(?:api|access|secret)-key)"
            rf"(?P<gap>=| (?=\S{{0,99}}[^\W_a-z])){_ARGUMENT}"
        ),
    ),
}
"""Where commands have a credential, by the begin of the command or option."""
_HEADERS: Final = ("authorization", "x-", '"auth"')
_HEADER: Final = lazy_pattern(
    r"(?:authorization[\"']?: {0,3}[\"']?(?:(?P<basic>basic)|bearer|token) {1,3}"
    r"|\"auth\" ?: ?\"(?P<auth>)"
    r"|(?<![\w-])x-(?!idempotency|routing|cache|partition|request|correlation)"
    r"[\w-]{0,30}(?:token|key|jeton|auth|secret|clave)[\w-]{0,30}[\"']?: {0,3}[\"']?)"
    r"(?P<value>[\w.~+/=-]{8,2000})",
    re.IGNORECASE | re.ASCII,
)
_NEXT_ARGUMENT: Final = lazy_pattern(
    r"[\"'`]?(?:\s*$|\s*[|<>;&]| -|\s+(?:[/.\"']|\S{0,200}[@:/.]\w|(?:ssh|scp|sftp|rsync|ping)\b))"
)
"""What follows an argument that is a plain word, if it is in a command and not in a sentence."""
_FILE: Final = lazy_pattern(r"[\w-]+\.(?:[a-z]\w{1,3}|7z)")
_PORT_DIGITS_MAX: Final = 5


def find_in_commands(text: str, lower: str) -> Iterator[SecretMatch]:
    """Find credentials in the commands and headers of a text, given in lower case, too."""
    for start, pattern in _COMMANDS.items():
        if start not in text:
            continue
        for match in (pattern.match(text, place) for place in places_of(text, start)):
            if match and _is_argument(text, match):
                yield credential("password in a command", match)
    for start in _HEADERS:
        if start not in lower:
            continue
        for match in (_HEADER.match(text, place) for place in places_of(lower, start)):
            if match and _is_header_value(match):
                yield credential("credential in a header", match)


def _is_argument(text: str, match: re.Match[str]) -> bool:
    value = match["value"]
    is_port = ":" in value and value.replace(":", "").isdigit()
    is_name = value.isupper() and value.replace("_", "").isalpha()
    is_number = value.isdigit() and (match["gap"] == " " or len(value) <= _PORT_DIGITS_MAX)
    is_file = match["gap"] == " " and _FILE.fullmatch(value)
    if is_port or is_name or is_file or is_number or PLACEHOLDER.search(value):
        return False
    is_word = value.isalpha() and match["gap"] == " "
    return not is_word or _NEXT_ARGUMENT.match(text, match.end("value")) is not None


def _is_header_value(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["basic"] is None and match["auth"] is None:
        return is_strong(value, is_adjacent=True)
    try:
        return b":" in b64decode(value, validate=True)
    except ValueError:
        return False
