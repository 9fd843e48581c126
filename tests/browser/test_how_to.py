"""The how-to of the page, done as it says, with the commands and the page that a person starts."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import log_in
from tests.cli.test_ui import LINK
from tests.processes import TIMEOUT_S, clean_environment, command

HOW_TO: Final = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-web-page.md"


@pytest.fixture
def steps() -> str:
    text = HOW_TO.read_text("utf-8")
    return text[: text.index("\n## Keys")]


@pytest.fixture
def link(path: Path) -> Iterator[str]:
    """The link that the page of a store prints, once something is stored."""
    brain(path, '--agent codex remember "The shop deploys on Fridays" --project shop')
    process = subprocess.Popen(
        command(path, "ui", "--no-browser"),
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    yield next(match[0] for line in process.stdout if (match := LINK.search(line)))
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)


def brain(path: Path, line: str) -> str:
    """Run a command as a how-to writes it."""
    done = subprocess.run(
        command(path, *shlex.split(line)),
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout


@pytest.mark.requirement("CL-18")
def test_newcomer_corrects_a_memory_that_the_agent_then_recalls(
    chromium: Browser, link: str, path: Path, steps: str
) -> None:
    question, correction = re.findall(r"type `(.+?)`|holds now, `(.+?)`", steps)
    page = chromium.new_page()
    log_in(page, link)
    page.keyboard.press("/")
    page.keyboard.type(question[0])
    page.keyboard.press("Enter")
    expect(page).to_have_title(re.compile(question[0]))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The shop deploys on Fridays")).to_be_visible()
    page.keyboard.press("e")
    expect(page.get_by_label("What holds now")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type(correction[1])
    for name in re.findall(r"\*\*(Save|Undo)\*\*", steps):
        if name == "Save":
            page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name="Undo")).to_be_visible()
    recall, *_ = re.findall(r"^\$ brain (.* recall .*)$", steps, flags=re.MULTILINE)
    answer = brain(path, recall)
    assert correction[1] in answer
    page.close()
