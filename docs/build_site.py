"""Builds the documentation site: `python docs/build_site.py FOLDER [--version V] [--pictures P]`.

The pages are those of this folder, the reference, which is generated from the tables, and the
pictures that the browser tests make of the web page. Each version has a folder in FOLDER.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GENERATED = "reference/generated"
PICTURES = "pictures"
SOURCE = "https://github.com/commonbrain/commonbrain/blob/main"
"""Where the files are that are no pages."""
LATEST = "latest"
BUILD_TIMEOUT_S = 300
PICTURE = re.compile(r"(?P<screen>\w+)-(?P<width>\d+)-(?P<scheme>light|dark)")
ITEM_COLUMNS = 4
PHONE = 600
"""Pictures of narrower screens are shown at half their size."""
MARKER = re.compile(r" *(?P<marker>(?:[-*+]|\d+[.)]) +)")
LINK = re.compile(r"(?<=\]\()(?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
PAGE = re.compile(r"\]\((?P<path>[^)#]+\.md)\)")
REFERENCE = re.compile(r"^\| `(?P<page>\w+)\.md` \|", re.MULTILINE)


def main() -> None:
    """Build one version; the site offers it with those that are in the folder already."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default=LATEST, help="name of the version (latest)")
    parser.add_argument("--pictures", type=Path, help="folder that `just browser --pictures` wrote")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        pages = work / "docs"
        collect(pages, pictures=options.pictures)
        (work / "zensical.toml").write_text(settings(pages), "utf-8")
        run("-m", "zensical", "build", "--strict", "--clean", cwd=work)
        target = options.folder / options.version
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(work / "site", target)
    list_versions(options.folder)


def collect(pages: Path, *, pictures: Path | None) -> None:
    """Put all pages into a folder."""
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.py", "*.toml", "generated"))
    run(str(DOCS / "reference" / "generate.py"), str(pages / GENERATED))
    overview = pages / "reference" / "README.md"
    overview.write_text(
        REFERENCE.sub(r"| [\g<page>](generated/\g<page>.md) |", overview.read_text("utf-8")),
        "utf-8",
    )
    if pictures is not None:
        shutil.copytree(pictures, pages / PICTURES)
        (pages / PICTURES / "README.md").write_text(gallery(pictures), "utf-8")
    for page in pages.rglob("*.md"):
        text = link_source(page.read_text("utf-8"), folder=page.parent.relative_to(pages))
        page.write_text(indent_lists(text), "utf-8")


def link_source(text: str, *, folder: Path) -> str:
    """Let links to files outside this folder lead to the repository."""

    def linked(match: re.Match[str]) -> str:
        path = (DOCS / folder / match["path"]).resolve()
        if path.is_relative_to(DOCS):
            return match[0]
        return f"{SOURCE}/{quote(path.relative_to(ROOT).as_posix())}{match['anchor'] or ''}"

    return LINK.sub(linked, text)


def indent_lists(text: str) -> str:
    """Indent the contents of list items by four columns, as the generator needs; GitHub does not.

    A list that follows a paragraph gets an empty line before it, for the same reason.
    """
    lines = text.splitlines()
    added = [0] * len(lines)
    starts = set[int]()
    for token in MarkdownIt("commonmark").parse(text):
        if token.map is None:
            continue
        first, end = token.map
        if token.type in {"bullet_list_open", "ordered_list_open"} and token.level == 0:
            starts.add(first)
        elif token.type == "list_item_open":
            marker = MARKER.match(lines[first])
            width = len(marker["marker"]) if marker else ITEM_COLUMNS
            for number in range(first + 1, end):
                added[number] += ITEM_COLUMNS - width
    indented: list[str] = []
    for number, line in enumerate(lines):
        if number in starts and indented and indented[-1]:
            indented.append("")
        indented.append(f"{' ' * added[number]}{line}" if line else "")
    return "\n".join((*indented, ""))


def gallery(pictures: Path) -> str:
    """Return a page with the pictures, by screen, in the colours that the reader has chosen."""
    lines = ["# The web page in pictures", "", "The tests of the page made these pictures."]
    screen = ""
    for path in sorted(pictures.glob("*.png"), key=_by_width):
        match = PICTURE.fullmatch(path.stem)
        if match is None:
            continue
        if match["screen"] != screen:
            screen = match["screen"]
            lines += ["", f"## {screen.replace('_', ' ').capitalize()}", ""]
        width = int(match["width"])
        lines.append(
            f"![{screen}, {match['width']} pixels wide]({path.name}#only-{match['scheme']})"
            f"{{ width={width if width > PHONE else width // 2} }}"
        )
    return "\n".join((*lines, ""))


def _by_width(path: Path) -> tuple[str, int]:
    """Order pictures by screen, the widest first."""
    match = PICTURE.fullmatch(path.stem)
    return (match["screen"], -int(match["width"])) if match else (path.stem, 0)


def settings(pages: Path) -> str:
    """Return the settings of the generator, with the navigation."""
    text = (DOCS / "zensical.toml").read_text("utf-8")
    head, project, rest = text.partition("[project]\n")
    return f"{head}{project}nav = {to_toml([*navigation(pages)])}\n{rest}"


def navigation(pages: Path) -> Iterator[dict[str, object]]:
    """Yield the sections of the first page, each with the pages that it lists."""
    text = (pages / "README.md").read_text("utf-8")
    yield {"Documentation": "README.md"}
    heads = [*SECTION.finditer(text)]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    intro = text[: heads[0].start()]
    yield from listed(intro, pages)
    for head, end in zip(heads, ends, strict=True):
        yield {head["title"]: [*listed(text[head.end() : end], pages)]}
    yield {
        "Generated reference": [
            entry(path, pages) for path in sorted((pages / GENERATED).glob("*.md"))
        ]
    }
    if (pages / PICTURES).exists():
        yield entry(pages / PICTURES / "README.md", pages)


def listed(text: str, pages: Path) -> Iterator[dict[str, object]]:
    """Yield the pages to which a text links."""
    for match in PAGE.finditer(text):
        yield entry(pages / match["path"], pages)


def entry(path: Path, pages: Path) -> dict[str, object]:
    """Return a page with its title."""
    title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return {title.replace("`", ""): path.relative_to(pages).as_posix()}


def to_toml(value: object) -> str:
    """Return lists, tables and texts as one line of TOML."""
    match value:
        case dict():
            rows = (f"{json.dumps(name)} = {to_toml(part)}" for name, part in value.items())
            return f"{{ {', '.join(rows)} }}"
        case list():
            return f"[{', '.join(map(to_toml, value))}]"
        case _:
            return json.dumps(value)


def list_versions(folder: Path) -> None:
    """Write the list that the selector of versions shows, and lead visitors to the latest one."""
    # A branch of pages has folders such as `.git`.
    folders = (path.name for path in folder.iterdir() if path.is_dir())
    names = [name for name in folders if not name.startswith(".")]
    names.sort(key=_by_number, reverse=True)
    rows = [{"version": name, "title": title_of(name), "aliases": []} for name in names]
    (folder / "versions.json").write_text(json.dumps(rows, indent=1), "utf-8")
    (folder / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
        "<title>Commonbrain</title>\n",
        "utf-8",
    )


def _by_number(name: str) -> tuple[bool, list[int]]:
    """Order versions by their numbers; the latest is the highest."""
    return name == LATEST, [int(number) for number in re.findall(r"\d+", name)]


def title_of(name: str) -> str:
    """Return what the selector shows for a version."""
    return f"{name} ({version('commonbrain')})" if name == LATEST else name


def run(*arguments: str, cwd: Path = ROOT) -> None:
    """Run Python; end with its output if it fails."""
    done = subprocess.run(  # noqa: S603 its own modules
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed.\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
