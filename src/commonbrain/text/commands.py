"""Shell commands: what a text for a shell runs, and whether a memory is about one of them.

A memory is about a command if it writes the command, the script that it runs, or the program that
it should not run. A rule or an incident may also name the kind of command by a word: "deploys".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from shlex import shlex
from typing import Final

from commonbrain.text.code_names import EditedCode, Naming, naming_of
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences

_COMMAND_CHARS_MAX: Final = 64 * 1024
_COMMANDS_MAX: Final = 20
"""Different commands that are read of one text; a longer one is a program."""
_MEMORY_CHARS_MAX: Final = 8_000
_ENDS: Final = frozenset("\n;&|()`")
"""What divides simple commands."""
_REDIRECTIONS: Final = frozenset("<>&")
_COMMENT: Final = lazy_pattern(r"(?<![^\s;&|()])#[^\n]*+")
"""Also within quotation marks, where what follows is not read."""
_ASSIGNMENT: Final = lazy_pattern(r"[A-Za-z_]\w*=")
_WORD: Final = lazy_pattern(r"[A-Za-z][\w:@-]*")
"""A word that may be a subcommand: neither a path, a number nor a variable."""
_LETTERS: Final = lazy_pattern(r"-[A-Za-z]{2,4}")
"""Options of one letter each, such as `-rf`."""

_PRINTERS: Final = frozenset("echo printf".split())
_SHELLS: Final = frozenset("sh bash zsh dash ksh source .".split())
_TEXT_SHELLS: Final = _SHELLS - {"source", "."}
"""Those that take a command as a text."""
_INTERPRETERS: Final = _SHELLS | frozenset("python python3 node ruby perl deno bun php".split())
_FILE_TOOLS: Final = frozenset(
    "ls cat less more head tail grep egrep rg ag find fd cd pwd tree stat wc diff sed awk sort uniq"
    " cut tr which type man vi vim nvim nano emacs code file du df history touch mkdir rmdir cp mv"
    " rm ln chmod chown tar zip unzip jq yq sleep test tee export set read true false"
    " pytest mypy pyright black isort flake8 eslint prettier tsc".split()
)
"""Programs whose words are files and patterns, never a subcommand."""
_STATEMENT: Final = lazy_pattern(r"\b(drop|truncate) (database|schema|table)\b", re.IGNORECASE)
"""A command of SQL that a program runs, quoted."""
_PREFIXES: Final = frozenset(
    "sudo doas env time nohup nice timeout xargs exec command builtin eval watch npx uvx then do"
    " else if elif while until ! {".split()
)
"""What stands before a command."""
_RUNNERS: Final = {
    **dict.fromkeys("uv poetry pdm pipenv hatch rye".split(), ("run",)),
    **dict.fromkeys("npm pnpm yarn bundle".split(), ("exec", "dlx")),
    **dict.fromkeys("docker podman kubectl".split(), ("exec", "run")),
    **dict.fromkeys("python python3".split(), ("-m",)),
}
"""Programs that run another one after a word; its own options and names may come between."""
_RUNNER_WORDS: Final = 4
_VALUES: Final = frozenset(
    "-C -c -f -F -n -p -w -u --git-dir --work-tree --namespace --context --file --project-name"
    " --project-directory --profile --env-file --kubeconfig --project --region --cwd --dir"
    " --prefix --filter --workspace --chdir".split()
)
"""Options before a subcommand that take a word of their own."""
_HARMLESS: Final = frozenset("--dry-run --help -h --version".split())
"""Options by which a program only shows something."""
_GROUPS: Final = frozenset(
    "compose run volume system image rollout s3 release repo pr manage.py aws gcloud az".split()
)
"""Words after which one more belongs to the command: `docker compose down`."""
_OPTION: Final = r"--?[A-Za-z][\w-]*(?:=\S+)?"
_FORBIDDING: Final = lazy_pattern(
    r"\b(?:never|not|no|nobody|forbidden|avoid|without|only|outside)\b|n't\b", re.IGNORECASE
)
_REPLACED: Final = (
    r"(?:do not|don't|never) (?:use|run|call)|not|never|instead of|rather than|avoid|no longer use"
)
_BEFORE_REPLACED: Final = ("not", "of", "use", "than", "never", "avoid", "run", "call")
"""The words before a program that another one replaces."""
_FREQUENT: Final = frozenset(
    "git docker npm make go python python3 node uv pip cargo kubectl".split()
)
"""Programs with subcommands that most stores mention somewhere."""
_ENGLISH: Final = frozenset(
    "make go just at time test find sort cut split join watch act task date who kill sleep less"
    " more man write look head tail run start deploy black tree file type read set code open"
    " history export true false env top node flask rails host patch".split()
)
"""Programs whose name is a word of any sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A simple command: what says which it is, without its further words."""

    head: tuple[str, ...]
    """The program, without its folder, and its subcommands."""
    options: frozenset[str] = frozenset()
    script: str = ""
    """The file that it runs, as a path."""

    @property
    def key(self) -> str:
        """The command in one line; the same for every one that is treated alike."""
        is_program = self.script.endswith(f"/{self.head[0]}")
        head = self.head[1:] if is_program else self.head
        return " ".join(filter(None, [*head, self.script, *sorted(self.options)]))

    @property
    def kinds(self) -> "tuple[CommandKind, ...]":
        """The kinds of command that it is."""
        line = " ".join([*self.head, *sorted(self.options)])
        spaced = line.replace("_", " ")
        return tuple(kind for kind in COMMAND_KINDS if kind.runs.search(spaced))

    @property
    def phrases(self) -> tuple[str, ...]:
        """Words and phrases of which a memory about it contains one."""
        program = self.head[0]
        replaced = [f"{one} {program}" for one in _BEFORE_REPLACED]
        whole = " ".join(self.head) if self.head[1:] else ""
        is_rare = not self.script and program not in _FREQUENT | _ENGLISH
        optional = [f"{program} {one.lstrip('-')}" for one in sorted(self.options)]
        alone = [program] if is_rare else optional
        terms = [term for kind in self.kinds for term in kind.terms]
        return tuple(
            filter(None, [whole, self.script.rpartition("/")[2], *alone, *replaced, *terms])
        )


@lru_cache(maxsize=1)
def read_commands(text: str) -> tuple[ShellCommand, ...]:
    """Return the different commands that a text for a shell seems to run.

    What it is for may err: here-documents are read as commands, and what a shell computes, such as
    aliases and variables, is not known. Only the first 64 KiB are read, and nothing after a
    quotation without an end. Commands that only print, or show what they would do, are left out.
    A hook asks several times for the same text.
    """
    commands: dict[ShellCommand, None] = {}
    for words in _split(text[:_COMMAND_CHARS_MAX]):
        commands.update(dict.fromkeys(_read(words)))
        if len(commands) >= _COMMANDS_MAX:
            break
    return tuple(commands)[:_COMMANDS_MAX]


def _split(text: str) -> Iterator[list[str]]:
    """Split a shell's text into simple commands, as words without quotes."""
    plain = _COMMENT.sub("", text.replace("\\\n", " "))
    lexer = shlex(plain, posix=True, punctuation_chars="();<>|&`\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    words: list[str] = []
    try:
        for word in lexer:
            if _ENDS.issuperset(word):
                yield _without_redirections(words)
                words = []
            else:
                words.append(word)
    except ValueError:  # a quotation without an end
        pass
    yield _without_redirections(words)


def _without_redirections(words: Sequence[str]) -> list[str]:
    """Remove redirections with their files and numbers."""
    places = [n for n, word in enumerate(words) if _REDIRECTIONS.issuperset(word)]
    removed = {n + by for n in places for by in (0, 1)}
    removed |= {n - 1 for n in places if n and words[n - 1].isdigit()}
    return [word for n, word in enumerate(words) if n not in removed]


def _read(words: Sequence[str]) -> Iterator[ShellCommand]:
    """List what a simple command runs: a prefix such as `sudo` has several possible programs."""
    names = [word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe") for word in words]
    at = next((n for n, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    if at == len(words) or names[at] in _PRINTERS or not _HARMLESS.isdisjoint(words):
        return
    for word in (one for one in words if " " in one):
        if not _TEXT_SHELLS.isdisjoint(names):
            yield from read_commands(word)
        elif names[at] not in _FILE_TOOLS and (statement := _STATEMENT.search(word)):
            yield ShellCommand(head=tuple(statement[0].lower().split()))
    for start in _starts(names, at):
        command = _command(words[start:], names[start:])
        if command is not None:
            yield command


def _starts(names: Sequence[str], at: int) -> Iterator[int]:
    """List where a program may begin."""
    yield at
    later = [n for n in range(at + 1, len(names)) if not names[n].startswith("-")]
    if names[at] in _PREFIXES:
        yield from later[:_COMMANDS_MAX]
        return
    runners = _RUNNERS.get(names[at], ())
    runner = next((n for n in range(at + 1, len(names)) if names[n] in runners), None)
    if runner is not None:
        yield from [n for n in later if n > runner][:_RUNNER_WORDS]


def _command(words: Sequence[str], names: Sequence[str]) -> ShellCommand | None:
    program = names[0]
    if program in _PREFIXES or not _WORD.fullmatch(program.removesuffix(".sh").replace(".", "-")):
        return None
    script = words[0] if "/" in words[0] and "." in program else ""
    head = [program]
    if program not in _FILE_TOOLS and not script:
        for before, word in pairwise(words):
            if word.startswith("-") or before in _VALUES:
                continue
            is_script = len(head) == 1 and program in _INTERPRETERS and "." in word.strip("./")
            if is_script:
                script = word
            elif not _WORD.fullmatch(word):
                break
            head.append(word)
            if len(head) > 2 or not _GROUPS.intersection(head):  # noqa: PLR2004
                break
    return ShellCommand(head=tuple(head), options=_options(words), script=script)


def _options(words: Sequence[str]) -> frozenset[str]:
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    letters = {f"-{one}" for word in options if _LETTERS.fullmatch(word) for one in word[1:]}
    return frozenset(options | letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandKind:
    """Commands that rules and incidents name by a word."""

    name: str
    """What a keyword of a skill contains."""
    runs: re.Pattern[str]
    """Matches the command in one line, or a word of its target or script."""
    says: re.Pattern[str]
    """Matches what a memory about such commands says."""
    terms: tuple[str, ...]
    """Words of which such a memory has one."""


def _kind(name: str, *, runs: str, says: str, terms: str) -> CommandKind:
    return CommandKind(
        name=name,
        runs=lazy_pattern(runs),
        says=lazy_pattern(says, re.IGNORECASE),
        terms=tuple(terms.split()),
    )


COMMAND_KINDS: Final = (
    _kind(
        "commit",
        runs=r"^git commit(?: |$)",
        # "Commit to a date", "the commit hash" and those of databases are about other things.
        says=r"(?:^|[.;\n])(?![^.;\n]*\b(?:transaction|database|cursor|offset|batche)s?\b)[^.;\n]*"
        r"(?:(?<!auto[- ])(?<!phase )\b(?:pre-?)?commits?\b"
        r"(?!(?: \w+(?:self|us))? to (?!(?:\w+ )?(?:release |main|branch))|[ -](?:sha|hash|id"
        r"|offsets?|between)|\(|the)|\bcommitted\b(?! to\b)|\bgit history\b"
        r"|\bsquash|\bsigned-off|\bchecked in\b"
        r"|\b(?:in|into|out of) (?:git|the repo)\b(?! \w+ is))",
        terms="commit commits committed precommit git repo squash squashed signed checked",
    ),
    _kind(
        "force-push",
        runs=r"^git push\b.* (?:-f|--force\S*)(?: |$)",
        says=r"\bforce[- ]?push|\bpush\w* (?:\w+ )?(?:by|with) force\b",
        terms="force forcepush",
    ),
    _kind(
        "push",
        runs=r"^git push\b",
        says=r"(?<!force[- ])\bpush(?:es|ed|ing)? (?:directly |straight |commits? )?(?:in)?to\b"
        r"|\b(?:before|until) (?:you |each |every |a |the )?push(?:es|ing)?\b",
        terms="push",
    ),
    _kind(
        "rebase",
        runs=r"^git rebase\b",
        says=r"\brebas(?:e|es|ed|ing)\b.{0,60}\b(?:branch(?:es)?|main|master|trunk|develop|commits?"
        r"|review|pull requests?|history|upstream)\b",
        terms="rebase rebased",
    ),
    _kind(
        "deploy",
        runs=r"\bdeploy|\brollout\b|^kubectl apply\b|^helm (?:upgrade|install)\b|^cdk deploy\b",
        says=r"\bdeploy(?:s|ed|ing|ments?)?\b|\broll(?:s|ed|ing)? ?out\b",
        terms="deploy rollout",
    ),
    _kind(
        "migration",
        runs=r"\bmigrat(?:e|ion|ions)\b|^(?:alembic|aerich) (?:upgrade|downgrade)\b|^flyway\b",
        says=r"\bmigrat(?:e|es|ed|ing|ions?)\b",
        terms="migrate migration migrations",
    ),
    _kind(
        "publish",
        runs=r"\bpublish\b|^twine upload\b|^gem push\b|^docker push\b|^gh release create\b"
        r"|^(?:make|just|task|rake|npm run|yarn run|pnpm run) release\b",
        says=r"\bpublish(?:es|ed|ing)?\b(?! (?:[\w-]+ )?(?:events?|messages?))"
        r"|\breleas(?:es|ed|ing)\b|\brelease (?:only|when|by|from)\b",
        terms="publish release released",
    ),
    _kind(
        "drop database",
        runs=r"^dropdb\b|\bdrop (?:database|schema|table)\b",
        says=r"\bdrop(?:s|ped|ping)? (?:\w+ )?(?:database|schema|table)s?\b",
        terms="drop dropped dropping",
    ),
)


def names_command(command: ShellCommand, text: str) -> bool:
    """Return whether a text writes a command, its script, or the program that it should not run.

    If the text writes options, the command must have them.
    """
    part = text[:_MEMORY_CHARS_MAX]
    if command.script:
        code = EditedCode(files=(command.script,))
        if naming_of(code, part) is Naming.FILE:
            return True
    sentences = split_sentences(part, at_semicolons=True)
    return any(_writes(command, one) or _replaces(command.head[0], one) for one in sentences)


def _writes(command: ShellCommand, sentence: str) -> bool:
    """Return whether a sentence writes a command, or its program with options."""
    program, *subcommands = map(re.escape, command.head)
    if subcommands:
        whole = r"\s+".join([program, *subcommands])
        pattern = rf"(?<![\w./-]){whole}(?![\w./:-]*\w)(?P<options>(?:\s+{_OPTION})*)"
        written = re.finditer(pattern, sentence, re.IGNORECASE)
        if any(_has_options(command, one["options"]) for one in written):
            return True
    # With an underscore, no sentence contains it by chance.
    count = "*" if "_" in program else "+"
    options = rf"(?P<options>(?:\s+{_OPTION}){count})"
    pattern = rf"(?P<mark>`?)(?<![\w./-]){program}(?![\w.-]*\w){options}"
    for one in re.finditer(pattern, sentence):
        if _has_options(command, one["options"]):
            return True
        # How to run it, rather than how not to.
        if one["mark"] and not _FORBIDDING.search(sentence):
            return True
    return False


def _has_options(command: ShellCommand, written: str) -> bool:
    return all(
        any(_is_same_option(one, own) for own in command.options)
        for one in _options(written.split())
        if not _LETTERS.fullmatch(one)
    )


def _is_same_option(one: str, other: str) -> bool:
    """Return whether two options may be the same: `-f`, `--force` and `--force-with-lease` are."""
    if one.startswith("--") and other.startswith("--"):
        return one.startswith(other) or other.startswith(one)
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) == 2 and long.startswith(f"-{short}"))  # noqa: PLR2004


def _replaces(program: str, sentence: str) -> bool:
    """Return whether a sentence says to use another program."""
    mark = "`" if program in _ENGLISH else "[`\"']?"
    pattern = (
        rf"\b(?i:{_REPLACED}) {mark}{re.escape(program)}{mark}"
        r"(?=[,.;:)]|\s*$|\s+(?:to|for|in|on|at|here|directly|any)\b)"
    )
    return re.search(pattern, sentence) is not None
