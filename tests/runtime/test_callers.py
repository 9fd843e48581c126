"""The caller of a short process, found before the command line is loaded."""

from commonbrain.runtime.callers import CommandLine, parse_command_line


def test_options_before_a_command_are_parsed() -> None:
    names = CommandLine(store="b.db", agent="ann", session="s", words=("mcp",))
    words = ["--store", "b.db", "--agent=ann", "mcp"]
    environment = {"COMMONBRAIN_SESSION": "s", "COMMONBRAIN_AGENT": "x"}
    assert parse_command_line(words, environment) == names
    for other in (["--store", "mcp"], ["--x", "mcp"], ["--store"], []):
        assert parse_command_line(other, {}) is None
    with_option = parse_command_line(["recall", "--agent", "x", "--", "mcp"], {})
    assert with_option == CommandLine(words=("recall", "--agent", "x", "--", "mcp"))
