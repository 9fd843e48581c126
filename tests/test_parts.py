"""Every test runs with exactly one command, and tests lie where their package is named."""

import re

from tests.parts import FOLDERS, PARTS, TESTS, TOPICS, files_with_tests, may_hold

SOURCES = TESTS.parent / "src" / "commonbrain"


def test_every_package_of_the_core_has_its_folder_of_tests() -> None:
    packages = {path.parent.name for path in SOURCES.glob("*/__init__.py")}

    assert sorted(packages - set(TOPICS) - set(FOLDERS)) == ["testing"]


def test_every_folder_has_a_part_or_a_command_of_its_own() -> None:
    recipes = (TESTS.parent / "justfile").read_text("utf-8")
    commands = {part: f"test-{part}" if part in PARTS else part for part in FOLDERS.values()}

    assert [part for part, name in commands.items() if f"\n{name} " not in recipes] == []


def test_marks_name_known_parts() -> None:
    texts = [path.read_text("utf-8") for path in files_with_tests()]
    marked = {name for text in texts for name in re.findall(r'\bpart\("(\w+)"\)', text)}

    assert marked <= set(PARTS)
    assert all(any(may_hold(path, part) for path in files_with_tests()) for part in PARTS)
