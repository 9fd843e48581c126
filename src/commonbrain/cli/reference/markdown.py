"""Tables and names as Markdown writes them."""

from collections.abc import Iterable


def table(heads: str, rows: Iterable[Iterable[object]]) -> str:
    """Write a Markdown table; `heads` are parted by bars."""
    cells = [heads.split("|"), ["---"] * (heads.count("|") + 1), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in cells)


def code(names: Iterable[str]) -> str:
    """List names as code, or say that there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def yes_or_no(is_so: bool) -> str:  # noqa: FBT001 it is the value shown
    """Write a claim as a word."""
    return "yes" if is_so else "no"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
