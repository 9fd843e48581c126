"""What `brain --help` shows, and the examples below the help of each command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from commonbrain.cli.groups import EXAMPLES, FIRST_SCREEN, WORDS_OF_OTHERS
from commonbrain.cli.main import app
from commonbrain.runtime.callers import OWN_OPTIONS


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    context = typer.Context(group, info_name=" ".join(("brain", *path)))
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_has_one_example_and_takes_its_options() -> None:
    matches = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}

    assert set(EXAMPLES) <= set(matches)
    for path, command in matches.items():
        example = EXAMPLES.get(path, f"brain {path}")
        is_complete = not any(one.required for one in command.params)
        assert path in EXAMPLES or is_complete, path
        words = shlex.split(example)
        assert words[: 1 + len(path.split())] == ["brain", *path.split()]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known, path
        assert command.epilog == f"Example: {example}"


def test_first_help_screen_explains_at_most_twelve_commands() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output

    assert sum(len(names) for names in FIRST_SCREEN.values()) <= 12
    for title, names in FIRST_SCREEN.items():
        assert f"{title}:" in shown
        assert all(f"  {name} " in shown for name in names)
    assert shown.count("...") == 1, "only the usage has dots: no summary is cut"


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("remembor", "remember"),
        ("connekt", "connect"),
        ("skill lst", "list"),
        ("skil list", "skill"),
        ("search", "recall"),
        ("add", "remember"),
        ("rm", "forget"),
        ("task ls", "list"),
        ("claude", "connect claude-code"),
        ("codex", "connect codex"),
        ("history", "get ID --view history"),
    ],
)
def test_mistyped_command_gets_a_suggestion(typed: str, suggested: str) -> None:
    result = CliRunner().invoke(app, typed.split())

    assert result.exit_code == 2
    assert f"Did you mean {suggested!r}?" in result.output


def test_options_for_some_kinds_and_verbs_follow_those_for_every_call() -> None:
    for path, command in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*path, "--help"]).output
        intro, *sections = re.split(r"^For (.+):$", shown, flags=re.MULTILINE)
        # The kinds and verbs that the command takes are listed before.
        known = {"skill", *re.findall("[a-z]+", intro)}
        assert {word for title in sections[::2] for word in title.split(", ")} <= known, path
        assert not any("--json" in section for section in sections[1::2])
        options = {f"{option} " for one in command.params for option in one.opts if "--" in option}
        assert all(option in f"{shown} " for option in options), path
    assert (
        "For incident:\n  --root-cause <str>" in CliRunner().invoke(app, ["remember", "-h"]).output
    )


def test_words_of_other_programs_lead_to_commands_that_exist() -> None:
    matches = dict(commands(typer.main.get_command(app)))

    for word, meant in WORDS_OF_OTHERS.items():
        words = meant.split()
        assert (word,) not in matches
        command = matches.get(tuple(words[:1])) or matches[tuple(words[:2])]
        known = {option for one in command.params for option in one.opts}
        assert {option for option in words if option.startswith("--")} <= known, meant


def test_global_options_are_those_of_a_command_only_where_it_has_them() -> None:
    group = typer.main.get_command(app)

    for name in ("agent", "session", "store", "tenant"):
        owners = {
            " ".join(path)
            for path, command in commands(group)
            if any(f"--{name}" in one.opts for one in command.params)
        }
        assert owners == OWN_OPTIONS.get(name, frozenset())


def test_every_command_and_group_explains_itself_by_a_short_option() -> None:
    for words in (["-h"], ["recall", "-h"], ["session", "-h"], ["session", "list", "-h"]):
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code == 0
        assert shown.output == CliRunner().invoke(app, [*words[:-1], "--help"]).output


def test_unknown_command_unlike_any_other_gets_no_suggestion() -> None:
    result = CliRunner().invoke(app, ["zzzqq"])

    assert result.exit_code == 2
    assert "Did you mean" not in result.output
