"""The commands `brain backup`, `restore` and `export`."""

from dataclasses import dataclass
from pathlib import Path

import typer
from pydantic import TypeAdapter
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import Sanitized, progress, progress_bar
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import pluralize
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.interface import Backup, Holdings, Replacement, RestoreResult
from commonbrain.transfer.archive import ExportResult


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """What to restore, and whether it is confirmed or only previewed."""

    file: Path
    digest: str | None
    is_confirmed: bool
    is_dry_run: bool


def run_backup(state: GlobalOptions, destination: Path, *, replace: bool, as_json: bool) -> None:
    """Write a backup and print its size, memories and digest."""
    with state.open() as brain, progress_bar("backing up", is_shown=not as_json) as move:
        done = brain.backup(destination, replace=replace, on_progress=move)
    if as_json:
        typer.echo(TypeAdapter(Backup).dump_json(done).decode())
    else:
        Console().print(Sanitized(_render_backup(done)))


def run_restore(state: GlobalOptions, options: BackupOptions, *, as_json: bool) -> None:
    """Show what would be replaced, ask for confirmation, and replace it.

    Raises:
        InvalidInputError: `--json` without `--yes`: a program cannot confirm.

    """
    # The adapters take long to load; help and completion do without.
    from commonbrain.runtime.stores import preview_restore, restore  # noqa: PLC0415

    if as_json and not (options.is_confirmed or options.is_dry_run):
        raise InvalidInputError(
            "--json cannot ask for confirmation.", hint="Add --yes, or --dry-run for a preview."
        )
    plan = preview_restore(options.file, state.store)
    if options.is_dry_run and as_json:
        typer.echo(TypeAdapter(Replacement).dump_json(plan).decode())
        return
    if not as_json:
        Console().print(Sanitized(_render_replacement(plan)))
    if options.is_dry_run:
        typer.echo("Nothing was changed. Run it again without --dry-run.")
        return
    if not options.is_confirmed:
        typer.confirm("Replace the store with the backup?", abort=True)
    with progress_bar("restoring", is_shown=not as_json) as move:
        done = restore(options.file, state.store, digest=options.digest, on_progress=move)
    if as_json:
        typer.echo(TypeAdapter(RestoreResult).dump_json(done).decode())
    else:
        previous = f" The previous store is in {done.kept}." if done.kept else ""
        text = Text(f"{done.store} holds {_memories(done.memories)}.{previous}", overflow="fold")
        Console().print(Sanitized(text))


def _render_backup(done: Backup) -> RenderableType:
    contents = (
        f"{_memories(done.memories)}, {done.size_bytes:,} bytes, schema {done.schema_version}"
    )
    return Group(
        Text(f"Wrote and verified {done.path}", overflow="fold"),
        Text(contents),
        Text(f"sha256 {done.digest}", style="dim"),
    )


def _render_replacement(plan: Replacement) -> RenderableType:
    table = Table()
    for name in ("", "memories", "newest", "file"):
        table.add_column(name, overflow="fold")
    table.add_row("comes", *_holdings_row(plan.comes), Text(plan.file))
    table.add_row("goes", *_holdings_row(plan.goes), Text(plan.store))
    trouble = [Text(plan.trouble, style="yellow")] if plan.trouble else []
    return Group(table, *trouble)


def _memories(count: int) -> str:
    return pluralize(count, "memory", many="memories")


def _holdings_row(held: Holdings | None) -> tuple[str, str]:
    if held is None:
        return "none that can be read", ""
    return f"{held.memories:,}", show_instant(held.newest_at) if held.newest_at else ""


def run_export(state: GlobalOptions, target: Path, *, as_json: bool) -> None:
    """Export everything to a file and print a summary; progress goes to stderr."""
    with state.open() as brain, progress(is_shown=not as_json) as shown:
        task = shown.add_task("exporting", total=1.0)
        exported = brain.export(
            target, on_progress=lambda fraction: shown.update(task, completed=fraction)
        )
    if as_json:
        typer.echo(TypeAdapter(ExportResult).dump_json(exported).decode())
    else:
        summary = f"{exported.memories:,} memories, {exported.records:,} records in all"
        Console().print(Sanitized(f"{exported.path}: {summary}"))
