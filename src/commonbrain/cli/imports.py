"""The command `brain import`: one source, or those that `--find` lists and the user chooses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operations.job import render_job
from commonbrain.api.switches import check_import_is_on
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import Sanitized, print_error, print_value, progress, short_path
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Authority
from commonbrain.transfer.importer import missing_formats
from commonbrain.transfer.importers import InstalledImporters
from commonbrain.transfer.imports import FoundSource, ImportReport, find_sources
from commonbrain.transfer.merge import OWN_FORMAT

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCommand:
    """The arguments of the command."""

    format: str | None
    path: Path | None
    project: str | None
    is_dry_run: bool
    is_background: bool
    """Whether a worker imports it."""
    is_find: bool
    choice: str | None
    is_list: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _ImportSource:
    """What to import, and how."""

    format: str
    path: Path
    project: str | None
    is_dry_run: bool
    is_background: bool


def run_import_command(state: GlobalOptions, command: ImportCommand, *, as_json: bool) -> None:
    """Import a source, or list formats or sources.

    Raises:
        InvalidInputError: arguments are missing or exclude each other; nothing was imported.

    """
    if command.is_list:
        _list_formats(state, as_json=as_json)
    elif command.is_find:
        if command.format or command.path:
            raise InvalidInputError(
                "--find and a source exclude each other.", hint="Give FORMAT and PATH, or --find."
            )
        _run_find(state, command, as_json=as_json)
    elif command.format is None or command.path is None:
        raise InvalidInputError(
            "A format and a path are needed.",
            hint="See brain import --formats, or what is on this machine: brain import --find.",
        )
    else:
        source = _source(command, command.format, path=command.path)
        _run_import(state, source, as_json=as_json)


def _source(command: ImportCommand, format_: str, *, path: Path) -> _ImportSource:
    return _ImportSource(
        format=format_,
        path=path,
        project=command.project,
        is_dry_run=command.is_dry_run,
        is_background=command.is_background,
    )


def _list_formats(state: GlobalOptions, *, as_json: bool) -> None:
    installed = InstalledImporters()
    purposes = {one.name: one.purpose for one in installed.values()}
    purposes[OWN_FORMAT] = "A file from brain export"
    if as_json:
        print_value(purposes)
        return
    table = Table("format", "what it reads")
    for name, purpose in purposes.items():
        table.add_row(name, purpose)
    missing = missing_formats(installed)
    advice = f"For {', '.join(missing)}: {_INSTALL}."
    state.output.console().print(table, *([Text(advice, style="dim")] if missing else []), sep="\n")


_INSTALL: Final = "pip install 'commonbrain[import]'"


def _run_import(state: GlobalOptions, source: _ImportSource, *, as_json: bool) -> None:
    """Import a source and print its report; progress goes to stderr."""
    if source.is_background:
        _enqueue_import(state, source, as_json=as_json)
        return
    with state.open() as brain:
        check_import_is_on(brain.caller)
        report = _import_with_progress(brain, source, is_shown=not as_json)
        is_confirmed = brain.caller.authority is Authority.PERSON
    if as_json:
        print_value(report)
    else:
        shown = _render_report(report, is_dry_run=source.is_dry_run)
        state.output.console().print(Sanitized(shown))
        if not is_confirmed and not source.is_dry_run and report.stored + report.quarantined:
            state.output.console().print(_UNCONFIRMED)


_UNCONFIRMED: Final = (
    "No person confirmed this import: it ranks as captured, and its rules wait.\n"
    "Ask the user to decide on the rules: `brain review` in a terminal, or the page (`brain ui`)."
)


def _run_find(state: GlobalOptions, command: ImportCommand, *, as_json: bool) -> None:
    """List the sources on this machine, and import those that the user chooses.

    Raises:
        InvalidInputError: the choice names a source that is not listed; nothing was imported.

    """
    installed = InstalledImporters()
    sources = list(find_sources(installed, Path.home()))
    choice = command.choice
    if choice is None:
        if as_json:
            print_value(sources)
            return
        shown = _render_sources(sources, len(missing_formats(installed)))
        state.output.console().print(Sanitized(shown))
        if not sources or not state.output.is_interactive:
            return
        choice = typer.prompt(
            "Which ones (numbers or formats, all, or nothing)", default="", show_default=False
        )
    failed = False
    for one in choose(sources, choice, names=[one.format for one in sources]):
        try:
            _run_import(state, _source(command, one.format, path=one.path), as_json=as_json)
        except InvalidInputError as error:
            # The next source has nothing to do with this one.
            failed = True
            print_error(error, state.output.console(stderr=True))
    if failed:
        raise typer.Exit(EXIT_REFUSED)


def choose(rows: Sequence[_T], choice: str, *, names: Sequence[str]) -> list[_T]:
    """Return the rows of a list that a choice names by number or name, in their order.

    Raises:
        InvalidInputError: a word of the choice names no row.

    """
    chosen = {word.strip() for word in choice.split(",") if word.strip()}
    if chosen == {"all"}:
        return list(rows)
    keys = [{str(number), name} for number, name in enumerate(names, 1)]
    known = {key for both in keys for key in both}
    if unknown := sorted(chosen - known - {"none"}):
        raise InvalidInputError(
            f"The list has no {', '.join(unknown)}.",
            hint="Give numbers or names of the list, separated by commas, or all, or none.",
        )
    return [row for row, both in zip(rows, keys, strict=True) if chosen & both]


def _render_sources(sources: Sequence[FoundSource], missing: int) -> RenderableType:
    unsearched = [Text(f"{_INSTALL} finds {missing} further formats.", style="dim")]
    further = unsearched if missing else []
    if not sources:
        nothing = Text(
            "No other memories were found at their usual places. "
            "Name a source: brain import FORMAT PATH."
        )
        return Group(nothing, *further)
    advice = Text(
        "Nothing was read yet. Preview with brain import --find --choose 1,2 --dry-run; "
        "without --dry-run it imports. brain import --formats explains the formats.",
        style="dim",
    )
    return Group(sources_table(sources), advice, *further)


def sources_table(sources: Sequence[FoundSource]) -> Table:
    """List sources with their numbers, counts and sizes."""
    table = Table()
    for name in ("", "format", "files", "size", "where"):
        is_number = name in {"", "files", "size"}
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for number, one in enumerate(sources, 1):
        size = decimal(one.size_bytes)
        table.add_row(str(number), one.format, f"{one.count:,}", size, Text(short_path(one.path)))
    return table


def _import_with_progress(brain: Brain, source: _ImportSource, *, is_shown: bool) -> ImportReport:
    with progress(is_shown=is_shown) as shown:
        task = shown.add_task("importing", total=1.0)

        def move(report: ImportReport) -> None:
            counts = f"{report.read:,} read, {report.stored:,} stored"
            shown.update(task, completed=report.progress, description=counts)

        return _run(brain, source, on_progress=move)


def _run(
    brain: Brain, source: _ImportSource, *, on_progress: Callable[[ImportReport], None]
) -> ImportReport:
    """Merge an archive, or import a foreign format as new memories.

    Raises:
        InvalidInputError: a project was given for an archive, whose memories have their own.

    """
    if source.format != OWN_FORMAT:
        return brain.import_(
            source.format,
            source.path,
            project=source.project,
            dry_run=source.is_dry_run,
            on_progress=on_progress,
        )
    if source.project is not None:
        raise InvalidInputError("An export keeps its own projects.", hint="Leave --project out.")
    return brain.merge(source.path, dry_run=source.is_dry_run, on_progress=on_progress)


def _enqueue_import(state: GlobalOptions, source: _ImportSource, *, as_json: bool) -> None:
    """Upload a source for the workers, and print the job that imports it.

    Raises:
        InvalidInputError: a dry run was requested, which needs no worker.

    """
    if source.is_dry_run:
        raise InvalidInputError(
            "--dry-run and --background exclude each other.", hint="Give one of them."
        )
    with state.open() as brain:
        check_import_is_on(brain.caller)
        job = brain.jobs.import_(source.format, source.path, project=source.project)
    if as_json:
        print_value(job)
    else:
        typer.echo(render_job(job))


def _render_report(report: ImportReport, *, is_dry_run: bool) -> RenderableType:
    preview = " (dry run: nothing was stored)" if is_dry_run else ""
    stored = "Would be stored" if is_dry_run else "Stored"
    outcomes = Table()
    outcomes.add_column("outcome")
    outcomes.add_column("pieces", justify="right")
    for name in ("read", "stored", "exists", "changed", "quarantined", "rejected", "unreadable"):
        if (count := getattr(report, name)) or name in {"read", "stored"}:
            outcomes.add_row(name, f"{count:,}")
    if report.parts:
        outcomes.add_row("parts of longer ones", f"{report.parts:,}")
    kinds = {f"{kind}s": count for kind, count in report.kinds.items()}
    counted = ((stored, kinds), ("With them", report.carried))
    omitted = Table.grid(padding=(0, 1, 0, 0))
    omitted.add_column(justify="right")
    for name, count in report.omitted.items():
        omitted.add_row(f"  {count:,}", Text(name))
    return Group(
        Text(f"{report.format} from {report.source}{preview}", overflow="fold"),
        outcomes,
        *(Text(f"{what}: {_counts(counts)}") for what, counts in counted if counts),
        *([Text("Not carried over:"), omitted] if report.omitted else []),
        *(Text(f"{one.where}: {one.reason}", style="yellow") for one in report.refusals),
    )


def _counts(counts: Mapping[str, int]) -> str:
    """Format counts whose names are plurals."""
    return ", ".join(
        f"{count:,} {name.removesuffix('s') if count == 1 else name}"
        for name, count in counts.items()
    )
