"""Runs as one page of HTML: tables and plots, and nothing loaded from outside."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt

from commonbrain.model.escaping import inert_line
from commonbrain_evals.retrieval.parts import differences_of, judge
from commonbrain_evals.retrieval.plots import plots
from commonbrain_evals.retrieval.record import Run
from commonbrain_evals.retrieval.tables import headings, part_rows, run_rows

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Evaluation of recall</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto;
       padding: 0 1rem }}
table {{ border-collapse: collapse; margin: 1rem 0; font-size: 13px }}
td, th {{ border-bottom: 1px solid #ddd; padding: .2rem .6rem; text-align: left }}
svg {{ max-width: 100%; height: auto }}
</style></head><body>
{body}
</body></html>
"""


def page(runs: Sequence[Run]) -> str:
    """Write a report of some runs."""
    # Names of files and categories come from outside: raw HTML in them stays text.
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    parts = [reader.render("# Evaluation of recall\n\n" + "\n".join(_definitions()))]
    if sum(bool(run.left_out) for run in runs) > 1:
        title, columns, rows = part_rows(judge(differences_of(runs)))
        parts.append(reader.render("\n".join(_table(title, columns, rows=rows))))
    for run in runs:
        parts.append(reader.render("\n".join(_render_run(run))))
        parts += [
            f"{reader.render(f'### {title}')}\n<figure>{svg}</figure>"
            for title, svg in plots(run).items()
        ]
    return _PAGE.format(body="\n".join(parts))


def _definitions() -> Iterator[str]:
    yield "- all@k: share of the questions all of whose evidence is among the first k."
    yield "- any@10: share of the questions some of whose evidence is among the first ten."
    yield "- mean@10: mean share of the evidence that is among the first ten."
    yield "- Intervals are of 95%, of a bootstrap over questions."


def _render_run(run: Run) -> Iterator[str]:
    yield f"## {_plain(run.setup.dataset)}\n"
    yield from (f"- {_plain(line)}" for line in headings(run))
    for title, columns, rows in run_rows(run):
        yield from _table(title, columns, rows=rows)


def _table(title: str, columns: Sequence[str], *, rows: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f"\n### {title}\n"
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    """Keep a text within its cell or line, whatever marks it holds."""
    marks = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"})
    return inert_line(text).translate(marks)
