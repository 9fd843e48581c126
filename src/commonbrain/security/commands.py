"""Credentials in commands and headers: the option or place names the value, which may be a word.

The options are from the programs' manuals.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from commonbrain.security.secret_values import (
    PLACEHOLDER,
    SecretMatch,
    credential,
    is_strong,
    places_of,
)
from commonbrain.text.patterns import lazy_pattern

_ARGUMENT: Final = r"[\"']?(?P<value>[^\s\"'|;&<>`，。；]{3,200})"  # noqa: RUF001
_LONG: Final = rf"(?P<gap>[ =]){_ARGUMENT}"


def _option(programs: str, option: str, *, gap: str = "[ =]?") -> str:
    return rf"(?<![\w-])(?:{programs})\b[^\n|;&]{{0,200}}? {option}(?P<gap>{gap}){_ARGUMENT}"


_USER: Final = r"[ =]?[\"']?[^\s:,%\"']{1,64}"
_COMMANDS: Final = {
    start: lazy_pattern(pattern)
    for starts, pattern in (
        (("curl",), _option("curl", rf"(?:-u|--user|--proxy-user){_USER}:", gap="")),
        (("http", "xh"), _option("https?|xh", rf"(?:-a|--auth){_USER}:", gap="")),
        (("mysql", "mariadb"), _option(r"(?:mysql|mariadb)[\w-]*", "-p", gap="")),
        (("7z",), _option("7z[ar]?", "-p", gap="")),
        (("rar ", "unrar"), _option("(?:un)?rar", "-h?p", gap="")),
        (("zip ", "unzip"), _option("(?:un)?zip", "-P")),
        (("sshpass",), _option("sshpass", "-p")),
        (("redis-cli",), _option("redis-cli", "-a")),
        (("ldap",), _option(r"ldap\w+", "-w")),
        (("lftp",), _option("lftp", rf"-u{_USER},", gap="")),
        (("smbclient", "rpcclient"), _option("(?:smb|rpc)client", rf"-U{_USER}%", gap="")),
        (("mongo",), _option(r"mongo\w*", "-p")),
        (
            ("docker", "podman", "helm", "az ", "oc "),
            _option("docker|podman|helm|az|oc", r"login\b[^\n|;&]{0,99}? -p"),
        ),
        (("mosquitto_", "ipmitool", "sqlcmd"), _option(r"mosq\w+|ipmitool|sqlcmd", "-P")),
        (("htpasswd",), _option("htpasswd", r"-\w{0,9}b\w{0,9} \S{1,200} \S{1,64}", gap=" ")),
        (("sqlplus",), _option("sqlplus", r"\w{1,64}/", gap="")),
        (("ssh-keygen",), _option("ssh-keygen", "-[NP]")),
        (
            ("rabbitmqctl",),
            _option("rabbitmqctl", r"(?:add_user|change_password) \S{1,64}", gap=" "),
        ),
        (("snmp",), _option(r"snmp\w+", "-[AX]", gap=" ")),
        (("xfreerdp",), _option(r"xfreerdp\d?", "/p:", gap="")),
        (("-pass",), rf"-pass(?:in|out)? pass:(?P<gap>){_ARGUMENT}"),
        (
            ("echo",),
            rf"echo(?: -n)?(?P<gap> ){_ARGUMENT}[\"']? ?\| ?"
            r"(?:sudo(?: -\w{1,9}){0,3} -\w{0,9}S|docker login|passwd\b(?!-)|chpasswd|cryptsetup)",
        ),
        (
            ("--", "-storepass", "-keypass", "-password", "-pw "),
            r"--?(?:(?!ask|no-|use)[a-z]{1,20}-)?(?:(?:store|key|ftp-|ssh-|smtp-)pass|pw|pass(?:word|wd|phrase)"
            rf"|token|(?:api|access|secret)-key)(?P<gap>[ =]){_ARGUMENT}",
        ),
        (("IDENTIFIED BY '", "PASSWORD '"), rf"[A-Z ]{{9,14}}'(?P<gap>)(?=[^']*\d){_ARGUMENT}"),
        (
            ('assword"', 'ecret"', 'oken"'),
            rf"\w{{4,7}}\"\s{{1,9}}value=(?P<gap>){_ARGUMENT}",
        ),
    )
    for start in starts
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
    is_number = value.isdigit() and match["gap"] == " "
    if is_port or is_name or is_number or PLACEHOLDER.search(value):
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
