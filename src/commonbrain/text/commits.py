"""Commits: whether a shell command makes one, and whether a rule says how to make one."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from commonbrain.text.patterns import lazy_pattern

_COMMAND_CHARS_MAX: Final = 64 * 1024
_NESTED_MAX: Final = 3
"""Shells started by shells whose commands are read."""
_READER_WORDS_MAX: Final = 20
"""Words of a command that reads a here-document; each document repeats them."""
_TOKEN: Final = lazy_pattern(
    r"(?P<space>(?:[ \t\r]|\\\n)++)"
    r"|(?P<here><<-?[ \t]*(?P<quote>['\"]?)(?P<mark>[\w.-]++)(?P=quote))"
    r"|(?P<target>\d*+[<>]++[&|]?+)"
    r"|(?P<end>[\n;&|()`]++)"
    r"|(?P<comment>(?<![^\s;&|()])\#[^\n]*+)"
    r"|(?P<word>(?:[^\s;&|()`<>'\"\\]|'[^']*+(?:'|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\Z)|\\.?)++)"
    r"|(?P<other>.)",
    re.DOTALL,
)
"""One part of a shell command. Every part matches what is there, so none is read twice."""
_QUOTED: Final = lazy_pattern(r"'([^']*+)'?|\"((?:[^\"\\]|\\.)*+)\"?|\\(.?)", re.DOTALL)
_ESCAPED: Final = lazy_pattern(r"\\([\\\"$`])")
_SUBSTITUTION: Final = lazy_pattern(r"\\.|\$?\(|[)`]", re.DOTALL)
_ASSIGNMENT: Final = lazy_pattern(r"\w+\+?=")
_KEYWORDS: Final = frozenset("if then elif else while until do time ! {".split())
_SHELLS: Final = frozenset("sh bash zsh dash ksh".split())
_WRAPPERS: Final[Mapping[str, frozenset[str]]] = {
    "sudo": frozenset("-u -g -h -p -C -r -t -D -R -T -U --user --group --host --chdir".split()),
    "doas": frozenset("-u -C".split()),
    "env": frozenset("-u -C --unset --chdir".split()),
    "nice": frozenset("-n".split()),
    "ionice": frozenset("-c -n".split()),
    "timeout": frozenset("-k -s --kill-after --signal".split()),
    "stdbuf": frozenset("-i -o -e".split()),
    "exec": frozenset("-a".split()),
    "command": frozenset(),
    "builtin": frozenset(),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "xargs": frozenset("-I -n -P -L -d -E -s -a --max-args --max-procs --delimiter".split()),
}
"""Programs that run the command after them, with the options that take a word of their own."""
_GIT_VALUES: Final = frozenset(
    "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source".split()
)
"""Options of git, before its command, that take a word of their own."""
_COMMIT_VALUES: Final = frozenset(
    "--message --file --author --date --template --fixup --squash --reuse-message --trailer"
    " --reedit-message --cleanup --pathspec-from-file".split()
)
_SHORT_WITH_VALUE: Final = lazy_pattern(r"-[a-zA-Z]*[mFCct]")
_WITHOUT_COMMIT: Final = frozenset("--dry-run --short --porcelain --long --help -h".split())
"""Options by which git shows something and commits nothing."""
_SHELL_VALUES: Final = lazy_pattern(r"[-+][a-zA-Z]*[oO]|--(?:rcfile|init-file)")


def runs_commit(command: str) -> bool:
    """Return whether a shell command, or one of several, is `git commit`.

    A command in quotes or a here-document counts where a shell runs it, as in `bash -c`. What a
    shell computes, such as aliases and variables, is not known; only the first 64 KiB are read.
    """
    return _runs_commit(command[:_COMMAND_CHARS_MAX], depth=0)


def _runs_commit(command: str, *, depth: int) -> bool:
    if "commit" not in command:
        return False
    return any(_is_commit(words, depth=depth) for words in _commands(command))


def _commands(text: str) -> Iterator[list[str]]:
    """Split a shell's text into simple commands, as words without quotes.

    A command in double quotes, and one that a shell reads from a here-document, follow `-c`.
    """
    words: list[str] = []
    marks: list[tuple[str, list[str]]] = []
    at, is_target = 0, False
    while at < len(text) and (token := _TOKEN.match(text, at)):
        at = token.end()
        match token.lastgroup:
            case "word" if is_target:
                is_target = False
            case "word":
                words.append(_unquoted(token[0]))
                yield from (["sh", "-c", script] for script in _substituted(token[0]))
            case "target":
                is_target = True
            case "here":
                marks.append((token["mark"], words))
            case "end":
                yield words
                words, is_target = [], False
                if marks and "\n" in token[0]:
                    at = token.start() + token[0].index("\n")
                    for mark, reader in marks:
                        since, at = at, _after_document(text, at, mark=mark)
                        yield [
                            *reader[:_READER_WORDS_MAX],
                            "-c",
                            text[since:at].rpartition("\n")[0],
                        ]
                    marks = []
            case _:
                pass
    yield words


def _after_document(text: str, at: int, *, mark: str) -> int:
    """Return where the here-document that begins after a line ends."""
    line = ""
    while line != mark and at < len(text):
        end = text.find("\n", at + 1)
        end = len(text) if end < 0 else end
        line, at = text[at + 1 : end].lstrip("\t"), end
    return at


def _substituted(word: str) -> Iterator[str]:
    """List the commands in double quotes that a shell runs: in `$()` and between backticks."""
    for _, double, _ in _QUOTED.findall(word):
        depth, start = 0, -1
        for sign in _SUBSTITUTION.finditer(double):
            match sign[0]:
                case "$(" | "(" if depth or sign[0] == "$(":
                    start = start if depth else sign.end()
                    depth += 1
                case ")" if depth:
                    depth -= 1
                    if not depth:
                        yield double[start : sign.start()]
                        start = -1
                case "`" if not depth and start >= 0:
                    yield double[start : sign.start()]
                    start = -1
                case "`" if not depth:
                    start = sign.end()
                case _:
                    pass
        if start >= 0:
            yield double[start:]


def _unquoted(word: str) -> str:
    def plain(part: re.Match[str]) -> str:
        single, double, escaped = part.groups()
        return single or (_ESCAPED.sub(r"\1", double) if double else escaped or "")

    return _QUOTED.sub(plain, word)


def _is_commit(words: list[str], *, depth: int) -> bool:
    """Return whether a simple command commits, or starts a shell that does."""
    at = 0
    while at < len(words) and (words[at] in _KEYWORDS or _ASSIGNMENT.match(words[at])):
        at += 1
    name = _program(words[at]) if at < len(words) else ""
    while name in _WRAPPERS:
        at = _after_options(words, at + 1, values=_WRAPPERS[name], program=name)
        name = _program(words[at]) if at < len(words) else ""
    if name in _SHELLS:
        script = _script(words, at + 1)
        return depth < _NESTED_MAX and _runs_commit(script, depth=depth + 1)
    if name == "eval":
        return depth < _NESTED_MAX and _runs_commit(" ".join(words[at + 1 :]), depth=depth + 1)
    if name != "git":
        return False
    start = at + 1
    at = _after_options(words, start, values=_GIT_VALUES)
    if not _WITHOUT_COMMIT.isdisjoint(words[start:at]):
        return False
    return at < len(words) and words[at] == "commit" and not _is_dry(words[at + 1 :])


def _is_dry(options: list[str]) -> bool:
    """Return whether the options of `git commit` let it commit nothing."""
    is_value = False
    for word in options:
        if word == "--" and not is_value:
            break
        if word in _WITHOUT_COMMIT and not is_value:
            return True
        is_short = _SHORT_WITH_VALUE.fullmatch(word) is not None
        is_value = not is_value and (word in _COMMIT_VALUES or is_short)
    return False


def _program(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _after_options(words: list[str], at: int, *, values: frozenset[str], program: str = "") -> int:
    """Return where the options of a program end, and the assignments of one that runs another."""
    while at < len(words):
        if words[at].startswith("-"):
            at += 2 if words[at] in values else 1
        elif program and _ASSIGNMENT.match(words[at]):
            at += 1
        else:
            break
    return at + (program == "timeout")


def _script(words: list[str], at: int) -> str:
    """Return the command that a shell is given by `-c`; empty if it runs a file."""
    is_given = is_value = False
    for word in words[at:]:
        if is_value:
            is_value = False
        elif word.startswith(("-", "+")):
            is_given = is_given or (word[1:2] != "-" and "c" in word)
            is_value = _SHELL_VALUES.fullmatch(word) is not None
        else:
            return word if is_given else ""
    return ""


COMMIT_TERMS: Final = (
    "commit commits committed committing precommit git repo repository branch branches squash"
    " squashed rebase rebased fixup amend gitmoji history signed checked version"
).split()
"""Words of which a rule about commits has one."""
_SENTENCE: Final = lazy_pattern(r"[.!?;](?=\s|\Z)|\n")
_RULE_CHARS_MAX: Final = 8_000
_BRANCH: Final = (
    r"(?:main|master|trunk|develop|release|production|head"
    r"|(?:\S+ )?(?:branch(?:es)?|repo(?:s|sitory|sitories)?)|git|(?:version|source) control)\b"
)
_OTHER_SENSES: Final = lazy_pattern(
    # To promise; but "commit directly to main" and "use pre-commit to" are meant.
    r"(?<!pre-)(?<!git )\b(?:commit(?:s|ted|ting)?) (?:\w+(?:self|selves) |us )?to\b"
    rf"(?! (?:the |a |an )?{_BRANCH})"
    # A version as a thing.
    r"|\bcommit[ -](?:hash(?:es)?|shas?|ids?|refs?|log|graph|status)\b"
    r"|\bcommit(?=\()|(?<=\w\.)commit\b|\b(?:auto|group|two-phase |2-phase )[- ]?commit\w*",
    re.IGNORECASE,
)
_TRANSACTION: Final = lazy_pattern(
    r"\b(?:transactions?|offsets?|savepoints?|rollbacks?|unit of work|autocommit|write-ahead"
    r"|commit\w* (?:and|or|nor) roll\w*|commit\w* (?:the |a |its |each |every )?"
    r"(?:(?:db|database|sql) )?(?:session|cursor|batch|writes?))\b",
    re.IGNORECASE,
)
"""Words of databases: what is committed is no change of files."""
_COMMITTING: Final = lazy_pattern(
    r"\b(?:pre-?commit|commit|commits|committing)\b"
    r"|\b(?:be|is|are|gets?|not|never|only|always)(?: \w+ly)? committed\b"
    r"|\bcommitted (?:files?|code|changes?|secrets?|to|with|by hand)\b",
    re.IGNORECASE,
)
_BY_OTHER_WORDS: Final = lazy_pattern(
    r"\b(?:squash(?:ed|es|ing)?|fixups?|gitmoji|signed-off-by|co-authored-by)\b"
    r"|\b(?:git|linear|commit) history\b|\bhistory \w+ linear\b|\brewrit\w+ (?:\w+ )?history\b"
    r"|\bsign(?:ed|s)?[- ]off\b|\bgit (?:add|hooks?|rebase|merge)\b"
    r"|\b(?:in|into|out of|from|to) (?:git|(?:version|source) control)\b(?! \w+ is)"
    r"|\b(?:into|out of) the repo(?:sitory)?\b"
    r"|\b(?:be|is|are|not|never) check(?:ed)? in\b"
    # What else has a base is named: "rebase the wages".
    r"|\brebas(?:e|ed|es|ing)\b(?! (?:the|an?|all|each|every|our|its|their|this|that) "
    r"(?!(?:[\w-]{1,20} )?(?:branch|commit|pull|pr|patch|stack|fork|change|feature|work|topic"
    r"|series|repo|history)))"
    r"|\brebas(?:e|ed|es|ing)\b(?: [\w-]{1,20}){1,6} (?:on|onto) (?:the )?(?:main|master|trunk"
    r"|develop|origin|upstream|head)\b",
    re.IGNORECASE,
)
_BRANCHES: Final = lazy_pattern(
    r"\bbranch(?:es)? (?:name|names|naming|named|per|from|off|starts?)\b"
    r"|\bbranches (?:are|is|must be|should be|have|live)\b|\bname (?:\w+ )?branch(?:es)?\b"
    r"|\b(?:feature|topic|short-lived|own|separate|new) branch(?:es)?\b",
    re.IGNORECASE,
)
_OFFICES: Final = lazy_pattern(
    r"\b(?:banks?|banking|cit(?:y|ies)|towns?|offices?|country|countries|streets?|cashiers?|staff)\b",
    re.IGNORECASE,
)
"""Words of companies, which have branches, too."""
_VERSIONED: Final = lazy_pattern(
    r"\b(?:git|commits?|repo(?:sitory)?|merged?|rebased?|pull requests?|prs?|tickets?|features?"
    r"|main|code|developers?)\b",
    re.IGNORECASE,
)


def concerns_commits(rule: str) -> bool:
    """Return whether a rule says how to commit, what runs before it, or what is never committed."""
    return any(map(_concerns, _SENTENCE.split(rule[:_RULE_CHARS_MAX])))


def _concerns(sentence: str) -> bool:
    if _BY_OTHER_WORDS.search(sentence):
        return True
    is_of_company = _OFFICES.search(sentence) and not _VERSIONED.search(sentence)
    if _BRANCHES.search(sentence) and not is_of_company:
        return True
    if _TRANSACTION.search(sentence):
        return False
    return _COMMITTING.search(_OTHER_SENSES.sub(" ", sentence)) is not None
