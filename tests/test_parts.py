"""Every test runs with exactly one command, and every file of the core has a topic."""

import re

from tests.parts import CORE, FOLDERS, PARTS, TESTS, TOPICS, files_with_tests, may_hold, topic_of


def test_every_file_of_the_core_has_a_topic() -> None:
    core = [path for path in files_with_tests() if may_hold(path, CORE)]

    assert [path for path in core if topic_of(path) is None] == []


def test_every_row_of_the_topics_names_a_file() -> None:
    named = {topic_of(path) for path in files_with_tests()}

    assert set(TOPICS) <= named


def test_every_folder_has_a_part_or_a_command_of_its_own() -> None:
    recipes = (TESTS.parent / "justfile").read_text("utf-8")
    commands = {part: f"test-{part}" if part in PARTS else part for part in FOLDERS.values()}

    assert [part for part, name in commands.items() if f"\n{name} " not in recipes] == []


def test_marks_name_known_parts() -> None:
    texts = [path.read_text("utf-8") for path in files_with_tests()]
    marked = {name for text in texts for name in re.findall(r'\bpart\("(\w+)"\)', text)}

    assert marked <= set(PARTS)
    assert all(any(may_hold(path, part) for path in files_with_tests()) for part in PARTS)
