import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="anthropic is not installed")

from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from commonbrain_adapters.anthropic import AsyncCommonbrainMemoryTool, CommonbrainMemoryTool

from commonbrain.client import Brain
from commonbrain.model.limits import ATTACHMENT_BYTES_MAX, TEXT_BYTES_MAX
from tests.secrets import SECRETS

_, SECRET = SECRETS["github classic"]
NOTES = "/memories/notes.md"


@pytest.fixture
def tool(brain: Brain) -> CommonbrainMemoryTool:
    return CommonbrainMemoryTool(brain)


def run(tool: CommonbrainMemoryTool, command: str, **arguments: object) -> str:
    reply = tool.call({"command": command, **arguments})
    assert isinstance(reply, str)
    return reply


def create(tool: CommonbrainMemoryTool, path: str = NOTES, text: str = "one\ntwo\n") -> str:
    return run(tool, "create", path=path, file_text=text)


def lines(tool: CommonbrainMemoryTool, path: str = NOTES, **arguments: object) -> list[str]:
    return run(tool, "view", path=path, **arguments).split("\n")[1:]


def test_empty_folder_is_listed(tool: CommonbrainMemoryTool) -> None:
    assert run(tool, "view", path="/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, "
        "excluding hidden items and node_modules:\n0B\t/memories"
    )


def test_folder_is_listed_two_levels_deep_with_sizes_and_without_hidden_items(
    tool: CommonbrainMemoryTool,
) -> None:
    for path in ("a.md", "x/b.md", "x/y/c.md", "x/y/z/d.md", ".secret", "node_modules/e"):
        create(tool, f"/memories/{path}", "x" * 512)
    assert lines(tool, "/memories") == [
        "3K\t/memories",
        "512B\t/memories/a.md",
        "1.5K\t/memories/x/",
        "512B\t/memories/x/b.md",
        "1K\t/memories/x/y/",
    ]
    assert lines(tool, "/memories/x/y/") == [
        "1K\t/memories/x/y",
        "512B\t/memories/x/y/c.md",
        "512B\t/memories/x/y/z/",
        "512B\t/memories/x/y/z/d.md",
    ]


def test_file_is_shown_with_line_numbers(tool: CommonbrainMemoryTool) -> None:
    assert create(tool) == f"File created successfully at: {NOTES}"
    assert run(tool, "view", path=NOTES) == (
        f"Here's the content of {NOTES} with line numbers:\n     1\tone\n     2\ttwo\n     3\t"
    )


def test_view_range_selects_the_lines_that_are_shown(
    tool: CommonbrainMemoryTool, subtests: pytest.Subtests
) -> None:
    cases: list[tuple[list[int] | None, str]] = [
        ([2, 3], "23"),
        ([2, -1], "234"),
        ([0, 1], "1"),
        ([3, 99], "34"),
        ([9, 10], ""),
        (None, "1234"),
    ]
    create(tool, text="1\n2\n3\n4")
    for given, numbers in cases:
        with subtests.test(given=given, numbers=numbers):
            shown = [f"     {n}\t{n}" for n in numbers] or [""]
            assert lines(tool, view_range=given) == shown


def test_file_text_is_returned_exactly(tool: CommonbrainMemoryTool) -> None:
    text = "  e\u0301\t \r\n\x00 <commonbrain-memory> \n\n"
    create(tool, text=text)
    assert [one[7:] for one in lines(tool)] == text.split("\n")


def test_replacement_returns_the_lines_around_the_change(tool: CommonbrainMemoryTool) -> None:
    create(tool, text="1\n2\n3\nold\n5\n6\n7")
    reply = run(tool, "str_replace", path=NOTES, old_str="old", new_str="new\nmore")
    assert reply.split("\n") == [
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):",
        *("     2\t2", "     3\t3", "     4\tnew", "     5\tmore", "     6\t5", "     7\t6"),
    ]


@pytest.mark.parametrize(
    ("line", "text"), [(0, "new\none\ntwo\n"), (1, "one\nnew\ntwo\n"), (2, "one\ntwo\nnew\n")]
)
def test_text_is_inserted_after_the_given_line(
    tool: CommonbrainMemoryTool, line: int, text: str
) -> None:
    create(tool)
    reply = run(tool, "insert", path=NOTES, insert_line=line, insert_text="new\n")
    assert reply == f"The file {NOTES} has been edited."
    assert [one[7:] for one in lines(tool)] == text.split("\n")


def test_files_and_folders_are_deleted_and_renamed(tool: CommonbrainMemoryTool) -> None:
    for path in ("a/1", "a/b/2", "c"):
        create(tool, f"/memories/{path}", path)
    renamed = run(tool, "rename", old_path="/memories/a", new_path="/memories/x/y")
    assert renamed == "Successfully renamed /memories/a to /memories/x/y"
    assert lines(tool, "/memories/x/y/b/2") == ["     1\ta/b/2"]
    run(tool, "rename", old_path="/memories/c", new_path="/memories/x/c")
    assert run(tool, "delete", path="/memories/x/y") == "Successfully deleted /memories/x/y"
    run(tool, "delete", path="/memories/x/c")
    assert lines(tool, "/memories") == ["0B\t/memories"]


def test_path_that_does_not_exist_is_refused(
    tool: CommonbrainMemoryTool, subtests: pytest.Subtests
) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("view", {}, "The path {0} does not exist. Please provide a valid path."),
        ("str_replace", {"old_str": "a", "new_str": "b"}, "Error: The path {0} does not exist"),
        ("insert", {"insert_line": 0, "insert_text": "a"}, "Error: The path {0} does not exist"),
        ("delete", {}, "Error: The path {0} does not exist"),
    ]
    for command, arguments, text in cases:
        with subtests.test(command=command, arguments=arguments, text=text):
            with pytest.raises(ToolError) as refused:
                run(tool, command, path=NOTES, **arguments)
            assert str(refused.value).startswith(text.format(NOTES))


def test_inapplicable_command_is_refused_and_changes_nothing(
    tool: CommonbrainMemoryTool, subtests: pytest.Subtests
) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("create", {"path": NOTES, "file_text": ""}, f"Error: File {NOTES} already exists"),
        (
            "create",
            {"path": f"{NOTES}/a", "file_text": ""},
            f"Error: {NOTES} is a file, not a directory",
        ),
        (
            "str_replace",
            {"path": NOTES, "old_str": "x", "new_str": ""},
            f"No replacement was performed, old_str `x` did not appear verbatim in {NOTES}.",
        ),
        (
            "str_replace",
            {"path": NOTES, "old_str": "o", "new_str": ""},
            "No replacement was performed. Multiple occurrences of old_str `o` in lines: 1, 2. "
            "Please ensure it is unique",
        ),
        (
            "insert",
            {"path": NOTES, "insert_line": 3, "insert_text": ""},
            "Error: Invalid `insert_line` parameter: 3. It should be within the range of lines of "
            "the file: [0, 2]",
        ),
        (
            "rename",
            {"old_path": "/memories/no", "new_path": "/memories/a"},
            "Error: The path /memories/no does not exist",
        ),
        (
            "rename",
            {"old_path": NOTES, "new_path": NOTES},
            f"Error: The destination {NOTES} already exists",
        ),
        ("delete", {"path": "/memories"}, "Error: Cannot delete the /memories directory itself"),
    ]
    create(tool)
    for command, arguments, text in cases:
        with subtests.test(command=command, arguments=arguments, text=text):
            with pytest.raises(ToolError) as refused:
                run(tool, command, **arguments)
            assert str(refused.value) == text
            assert lines(tool) == ["     1\tone", "     2\ttwo", "     3\t"]


def test_path_outside_the_memory_folder_is_refused(
    tool: CommonbrainMemoryTool, subtests: pytest.Subtests
) -> None:
    create(tool)
    for outside in [
        "/etc/passwd",
        "/memoriesx/a",
        "memories/a",
        "/memories/../a",
        "/memories/a/../../b",
        "/memories/./a",
        "/memories/%2e%2e/a",
        "/memories/%252e%252e%252fa",
        "/memories/..\\a",
        "/memories/a\0b",
    ]:
        with subtests.test(outside=outside):
            for command in ("view", "create", "delete"):
                with pytest.raises(ToolError, match="Path"):
                    run(tool, command, path=outside, file_text="a")
            with pytest.raises(ToolError, match="Path"):
                run(tool, "rename", old_path=NOTES, new_path=outside)


def test_secret_and_oversized_file_are_refused_with_the_reason(
    tool: CommonbrainMemoryTool,
) -> None:
    with pytest.raises(ToolError, match="holds a secret"):
        create(tool, text=f"token {SECRET}")
    with pytest.raises(ToolError, match="262,144 are allowed"):
        create(tool, text="x " * ATTACHMENT_BYTES_MAX)
    assert lines(tool, "/memories") == ["0B\t/memories"]


@pytest.mark.requirement("CL-05")
def test_file_is_recalled_and_an_edit_supersedes_its_memory(
    tool: CommonbrainMemoryTool, brain: Brain
) -> None:
    create(tool, text="The customer prefers tea")
    [memory] = brain.recall("what does the customer prefer?").items
    run(tool, "str_replace", path=NOTES, old_str="tea", new_str="coffee")
    assert brain.get(memory.id).state == "superseded"
    assert [item.body for item in brain.recall("what does the customer prefer?").items] == [
        "The customer prefers coffee"
    ]
    run(tool, "delete", path=NOTES)
    assert brain.recall("what does the customer prefer?").items == ()


def test_correction_of_the_memory_appears_in_the_file(
    tool: CommonbrainMemoryTool, brain: Brain
) -> None:
    create(tool, text="The customer prefers tea")
    [memory] = brain.recall("tea").items
    brain.revise.supersede(memory.id, "The customer prefers coffee", reason="asked again")
    assert lines(tool) == ["     1\tThe customer prefers coffee"]


def test_file_longer_than_a_memory_is_stored_completely(
    tool: CommonbrainMemoryTool, brain: Brain
) -> None:
    text = "\n".join(f"line {n}" for n in range(TEXT_BYTES_MAX // 4))
    create(tool, text=text)
    [memory] = brain.list().memories
    brain.revise.supersede(memory.id, "line 0", reason="shorter")
    assert [one[7:] for one in lines(tool)] == text.split("\n")


def test_each_project_has_its_own_folder(tool: CommonbrainMemoryTool, brain: Brain) -> None:
    create(tool)
    other = CommonbrainMemoryTool(brain.acting_as(project="shop"))
    assert lines(other, "/memories") == ["0B\t/memories"]


def test_clear_all_memory_deletes_all_files(tool: CommonbrainMemoryTool) -> None:
    create(tool)
    assert tool.clear_all_memory() == "All memory cleared"
    assert lines(tool, "/memories") == ["0B\t/memories"]


async def test_asynchronous_tool_runs_all_commands(brain: Brain) -> None:
    tool = AsyncCommonbrainMemoryTool(brain)
    path = {"path": NOTES}
    for command in (
        {"command": "create", **path, "file_text": "a"},
        {"command": "str_replace", **path, "old_str": "a", "new_str": "b"},
        {"command": "insert", **path, "insert_line": 1, "insert_text": "c"},
        {"command": "rename", "old_path": NOTES, "new_path": "/memories/d"},
    ):
        await tool.call(command)
    shown = await tool.call({"command": "view", "path": "/memories/d", "view_range": [1, 2]})
    assert isinstance(shown, str)
    assert shown.endswith("     1\tb\n     2\tc")
    await tool.call({"command": "delete", "path": "/memories/d"})
    with pytest.raises(ToolError):
        await tool.call({"command": "view", "path": "/memories/d"})
    assert await tool.clear_all_memory() == "All memory cleared"


@contextmanager
def claude(*replies: list[dict[str, Any]]) -> Generator[tuple[str, list[Any]]]:
    """Serve a script of replies; yield the address and the requests."""
    script, requests = list(replies), list[Any]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = script.pop(0)
            is_call = content[0]["type"] == "tool_use"
            message = {
                "id": "msg",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": content,
                "stop_reason": "tool_use" if is_call else "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            body = json.dumps(message).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name is inherited
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


def call(**command: object) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": "t", "name": "memory", "input": command}]


def test_tool_runner_executes_the_tool_calls_of_claude(
    tool: CommonbrainMemoryTool, brain: Brain
) -> None:
    script = (
        call(command="view", path=NOTES),
        call(command="create", path=NOTES, file_text="Ada likes tea"),
        [{"type": "text", "text": "Noted."}],
    )
    with claude(*script) as (url, requests), Anthropic(api_key="-", base_url=url) as client:
        done = client.beta.messages.tool_runner(
            model="claude",
            max_tokens=100,
            tools=[tool],
            messages=[{"role": "user", "content": "I am Ada, I like tea."}],
        ).until_done()
    assert done.content[0].type == "text"
    assert requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = [request["messages"][-1]["content"][0] for request in requests[1:]]
    assert results[0]["is_error"] is True
    assert "does not exist" in json.dumps(results[0]["content"])
    assert "created successfully" in json.dumps(results[1]["content"])
    assert brain.recall("tea").items[0].body == "Ada likes tea"
