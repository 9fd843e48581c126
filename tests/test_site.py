"""The documentation site is complete, and every link of it leads somewhere."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
LOADED: Final = frozenset({("script", "src"), ("img", "src"), ("link", "href")})
NOT_LOADED: Final = frozenset({"canonical", "next", "prev"})

pytestmark = pytest.mark.skipif(
    find_spec("zensical") is None, reason="run `uv sync --group docs`, which installs the generator"
)


class PageParser(HTMLParser):
    """Collects the ids of a page, its links, and what it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids = set[str]()
        self.links = list[str]()
        self.loads = list[str]()
        self.components = set[str | None]()
        self.numbered = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.numbered += tag == "ol"
        self.components.add(given.get("data-md-component"))
        for name in ("href", "src"):
            link = given.get(name)
            if link is not None:
                self.links.append(link)
                if (tag, name) in LOADED and given.get("rel") not in NOT_LOADED:
                    self.loads.append(link)


def build(folder: Path, *options: str) -> None:
    command = [sys.executable, str(DOCS / "build_site.py"), str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one version, and one picture as the browser tests name them."""
    folder = tmp_path_factory.mktemp("site")
    pictures = folder / "pictures"
    pictures.mkdir()
    shutil.copy(DOCS / "images" / "page.png", pictures / "search-1280-light.png")
    build(folder / "site", "--version", "0.1", "--pictures", str(pictures))
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, PageParser]:
    return {path: PageParser(path.read_text("utf-8")) for path in site.rglob("*.html")}


def broken(path: Path, page: PageParser, pages: dict[Path, PageParser]) -> Iterator[str]:
    """Yield the links of a page within the site that lead nowhere."""
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or path.name == "404.html":
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment) if target.suffix == ".html" else ""
        if not target.exists() or (
            anchor and not anchor.startswith("__") and anchor not in pages[target].ids
        ):
            yield f"{path.name}: {link}"


@pytest.mark.requirement("DO-23")
def test_every_documentation_page_is_on_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        if "generated" not in page.parts:
            built = page.relative_to(DOCS).with_suffix(".html")
            name = built.with_name("index.html") if page.name == "README.md" else built
            assert (site / "0.1" / name).exists(), name
    for name in ("operations", "commands", "rest", "settings", "errors"):
        assert (site / "0.1" / "reference" / "generated" / f"{name}.html").exists()


@pytest.mark.requirement("DO-23")
def test_every_link_within_the_site_resolves(pages: dict[Path, PageParser]) -> None:
    assert [fault for path, page in pages.items() for fault in broken(path, page, pages)] == []


def test_link_to_a_file_outside_the_site_points_to_the_repository(site: Path) -> None:
    comparison = (site / "0.1" / "explanation" / "comparison.html").read_text("utf-8")

    linked = re.search(r'href="(\S+/blob/main/(benchmarks/\S+))"', comparison)
    assert linked is not None
    assert (ROOT / linked[2]).exists()


def test_no_page_loads_resources_from_other_hosts(pages: dict[Path, PageParser]) -> None:
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).netloc] == []
    # The theme asks GitHub about a repository where this component is.
    assert not any("source" in page.components for page in pages.values())


def test_steps_around_code_blocks_are_a_single_numbered_list(
    pages: dict[Path, PageParser], site: Path
) -> None:
    # One list with code blocks between its steps, not one list for each step.
    assert pages[site / "0.1" / "how-to" / "run-a-server.html"].numbered == 1


def test_site_has_a_search_and_a_dark_mode(site: Path) -> None:
    index = json.loads((site / "0.1" / "search.json").read_text("utf-8"))
    home = (site / "0.1" / "index.html").read_text("utf-8")

    assert "idempotency" in json.dumps(index).lower()
    assert 'data-md-color-scheme="slate"' in home


def test_site_shows_the_pictures_of_the_browser_tests(site: Path) -> None:
    gallery = (site / "0.1" / "pictures" / "index.html").read_text("utf-8")

    assert "search-1280-light.png" in gallery
    assert (site / "0.1" / "pictures" / "search-1280-light.png").exists()


def test_versions_are_listed_newest_first(site: Path) -> None:
    builder = runpy.run_path(str(DOCS / "build_site.py"))
    for version in ("latest", "0.9", "0.10", ".git"):
        (site / version).mkdir()
    builder["list_versions"](site)

    listed = json.loads((site / "versions.json").read_text("utf-8"))

    assert [one["version"] for one in listed] == ["latest", "0.10", "0.9", "0.1"]
    assert "url=latest/" in (site / "index.html").read_text("utf-8")
