"""Runs and comparisons as tables for people: on the terminal, and as one page of HTML."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commonbrain.model.escaping import inert_line
from commonbrain_evals.measures import Estimate
from commonbrain_evals.retrieval.ablation import Trial, differences_of, judge, worth
from commonbrain_evals.retrieval.baselines import RECALL
from commonbrain_evals.retrieval.comparison import Comparison
from commonbrain_evals.retrieval.corpora import Form
from commonbrain_evals.retrieval.plots import plots
from commonbrain_evals.retrieval.question_runner import AS_SERVED
from commonbrain_evals.retrieval.record import ALL, ByMetric, Run
from commonbrain_evals.retrieval.summary import LAST_SESSION

SHOWN: Final = ("R@1 all", "R@5 all", "R@10 all", "R@10 mean", "R@10 any", "nDCG@10", "MRR")
"""The metrics that fit on a screen; the record has all."""
_FEW: Final = ("R@1 all", "R@10 all", "nDCG@10")
"""Those that are shown of each category that is compared, and of each part that is left out."""
_HEAD: Final = ("system", "all@1", "all@5", "all@10", "mean@10", "any@10", "nDCG@10", "MRR")
"""Their headings: of all the evidence, its mean share, or any."""
_OF_SESSIONS: Final = ("R@1 any", *SHOWN[1:])
"""Of sessions, first what others publish as Hit@1: a question may have several of them."""
_OF_CATEGORY: Final = ("R@10 all", "R@10 mean", "R@10 any", "nDCG@10")
"""Those that are shown of each category, whose names are long."""
_STAR: Final = "*: beyond noise, its 95% interval leaves out 0"

TableRows = tuple[str, Sequence[str], Iterator[list[str]]]


def show_run(run: Run) -> None:
    """Print a run."""
    console = Console(highlight=False)
    for line in headings(run):
        console.print(line, markup=False)
    for table in run_tables(run):
        console.print(table)


def show_comparison(comparison: Comparison) -> None:
    """Print a comparison."""
    console = Console(highlight=False)
    console.print(
        f"{comparison.system}: {comparison.questions} questions in both, "
        f"{comparison.unshared_questions} in only one",
        markup=False,
    )
    for line in comparison.unlike:
        console.print(f"not the same: {inert_line(line)}", markup=False)
    table = empty_table("", ("category", "metric", "before", "after", "difference (95%)"))
    for row in comparison.rows:
        if row.category != ALL and row.metric not in _FEW:
            continue
        table.add_row(
            escape(row.category),
            row.metric,
            percent(row.before),
            percent(row.after),
            change(row.difference),
        )
    console.print(table)
    console.print(_STAR)


def show_parts(trials: Sequence[Trial]) -> None:
    """Print what each part is worth."""
    title, columns, rows = part_rows(trials)
    table = empty_table(title, columns)
    # Names of groups and measures are long; a line that is cut would lose the word.
    for place, width in ((0, 13), (2, 8)):
        table.columns[place].no_wrap, table.columns[place].overflow = False, "fold"
        table.columns[place].min_width = width
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)


def part_rows(trials: Sequence[Trial]) -> TableRows:
    """Give what each part is worth, one row a measure that it changes, what is lost most first."""
    tries = sum(bool(trial.changed) for trial in trials)
    title = f"What leaving out a part changes, points; Holm: p corrected for {tries} tries"
    columns = ("left out", "part", "measure", "change (95%)", "changed", "p", "Holm")
    return title, columns, _parts(trials)


def _parts(trials: Sequence[Trial]) -> Iterator[list[str]]:
    by_part: dict[str, list[Trial]] = {}
    for one in sorted(trials, key=lambda one: (one.adjusted, one.p, one.difference.mean)):
        by_part.setdefault(one.part, []).append(one)
    for part, own in by_part.items():
        word = worth(own)
        changed = [one for one in own if one.changed]
        for one in changed:
            yield [part, word, one.measure, *_tested(one)]
        if not changed:
            yield [part, word, f"all {len(own)}", "the same", "0", "1", "1"]


def _tested(trial: Trial) -> Iterator[str]:
    one = trial.difference
    yield f"{one.mean * 100:+.1f} ({one.low * 100:+.1f} to {one.high * 100:+.1f})"
    yield str(trial.changed)
    yield from (f"{p:.2g}" for p in (trial.p, trial.adjusted))


def headings(run: Run) -> Iterator[str]:
    """Yield what a run is, in a few lines."""
    setup, times, machine = run.setup, run.times, run.machine
    latency = times.latency_ms[RECALL]
    source = inert_line(setup.source)
    yield f"{setup.dataset}: {source}, sha256 {setup.sha256[:16]}, seed {setup.seed}"
    if setup.form != Form.MESSAGES:
        yield f"turns given to remember as {setup.form}, one session per session of the data"
    if setup.without:
        yield f"without {', '.join(setup.without)}"
    yield f"commonbrain {run.version}, commit {run.commit or 'unknown'}, space {setup.space}"
    yield f"{machine.processor}, {machine.cores} cores, Python {machine.python}"
    yield (
        f"{run.memories:,} memories in {run.corpora} corpora ({run.refused} pieces refused); "
        f"{len(run.categories):,} questions with evidence ({run.skipped} name none)"
    )
    yield (
        f"{times.memories_per_s:,.0f} memories imported a second; recall p50 {latency.p50:.1f} ms, "
        f"p95 {latency.p95:.1f} ms; the run took {times.took_s:,.0f} s"
    )
    yield f"the whole history is {run.history_tokens:,.0f} tokens"
    if (served := run.budgets.get(RECALL, {}).get(AS_SERVED)) is not None:
        yield (
            f"a reply as served takes {served.tokens:,.0f} tokens and holds all evidence of "
            f"{percent(served.evidence.mean)}% of the questions, in part too of "
            f"{percent(served.in_part)}%"
        )
    if (last := run.budgets.get(LAST_SESSION)) is not None:
        yield (
            f"the last session alone is {last[ALL].tokens:,.0f} tokens and holds all evidence of "
            f"{percent(last[ALL].evidence.mean)}%"
        )


def run_tables(run: Run) -> Iterator[Table]:
    """Yield the tables of a run."""
    for title, columns, rows in run_rows(run):
        table = empty_table(title, columns)
        for row in rows:
            table.add_row(*map(escape, row))
        yield table


def run_rows(run: Run) -> Iterator[TableRows]:
    """Yield what a run found: titles, columns and rows."""
    yield (
        "Evidence that comes first, % of questions, with half of its 95% interval",
        _HEAD,
        _ranks(run),
    )
    if len(run.systems.get(RECALL, {})) > 1:
        title = "recall by category, %, with half of its 95% interval"
        heads = (_HEAD[1 + SHOWN.index(metric)] for metric in _OF_CATEGORY)
        yield title, ("category", "asked", *heads), _categories(run)
    if run.sessions:
        columns = ("system", "any@1", *_HEAD[2:])
        yield "Whose session comes first, %", columns, _sessions(run)
    if run.budgets:
        columns = ("system", *run.budgets[RECALL])
        yield "Questions whose evidence is whole in so many tokens, %", columns, _budgets(run)
    if run.abstention:
        columns = ("questions", "asked", "abstained", "precision", "recall", "wrongly")
        yield "Questions that are declared to have no answer, %", columns, _abstentions(run)
    if run.ablation:
        columns = ("left out", *_FEW)
        yield f"What leaving out a part changes, points; {_STAR}", columns, _ablation(run)


def empty_table(title: str, columns: Sequence[str]) -> Table:
    """Make a table of plain columns."""
    table = Table(title=title or None, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _ranks(run: Run) -> Iterator[list[str]]:
    for name, of in run.systems.items():
        yield [name, *_spreads(of[ALL])]


def _sessions(run: Run) -> Iterator[list[str]]:
    for name, of in run.sessions.items():
        yield [name, *_spreads(of, _OF_SESSIONS)]


def _spreads(of: ByMetric, metrics: Sequence[str] = SHOWN) -> Iterator[str]:
    """Write the metrics that are shown; older records lack some."""
    return (spread(of[metric]) if metric in of else "" for metric in metrics)


def _categories(run: Run) -> Iterator[list[str]]:
    for name, category_counts in run.systems[RECALL].items():
        count = sum(1 for one in run.categories.values() if name in {ALL, one})
        yield [name, str(count), *_spreads(category_counts, _OF_CATEGORY)]


def _budgets(run: Run) -> Iterator[list[str]]:
    allowed = run.budgets[RECALL]
    for name in run.systems:
        of = run.budgets[name]
        yield [name, *(spread(of[tokens].evidence) if tokens in of else "" for tokens in allowed)]
    yield ["recall, in part too", *(percent(one.in_part) for one in allowed.values())]
    yield ["recall packs", *(f"{one.tokens:,.0f}" for one in allowed.values())]
    yield ["saved of history", *(percent(one.saved) for one in allowed.values())]


def _abstentions(run: Run) -> Iterator[list[str]]:
    for name, one in run.abstention.items():
        figures = map(percent, (one.precision, one.recall, one.wrongly))
        yield [name, str(one.asked), str(one.abstained), *figures]


def _ablation(run: Run) -> Iterator[list[str]]:
    """Yield the rows of the parts, what hurts most first."""
    order = sorted(run.ablation.items(), key=lambda item: item[1]["R@10 all"].mean)
    for name, of in order:
        yield [name, *(change(of[metric]) for metric in _FEW)]


def percent(fraction: float) -> str:
    """Write a share."""
    return f"{fraction * 100:.1f}"


def spread(one: Estimate) -> str:
    """Write a mean with half of its interval."""
    return f"{percent(one.mean)}±{(one.high - one.low) * 50:.2g}"


def change(one: Estimate) -> str:
    """Write a difference with the ends of its interval, and a star where it is beyond noise."""
    if one.low == one.high == 0:
        return "the same"
    star = " *" if one.is_beyond_noise else ""
    return f"{one.mean * 100:+.1f} ({one.low * 100:+.1f} to {one.high * 100:+.1f}){star}"


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
