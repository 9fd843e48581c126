"""Stores as files: `brain backup`, `restore` and `export`."""

from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import (
    Sanitized,
    check_may_ask,
    make_table,
    print_line,
    print_value,
    progress_bar,
)
from commonbrain.model.escaping import pluralize
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.interface import (
    Backup,
    Holdings,
    Replacement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """What to restore, and whether it is confirmed or only previewed."""

    file: Path
    digest: str | None
    is_confirmed: bool
    is_dry_run: bool


def run_backup(state: GlobalOptions, destination: Path, *, replace: bool, as_json: bool) -> None:
    """Write a backup and print its size, memories and digest."""
    state.check_exists()
    with state.open() as brain, progress_bar("backing up", is_shown=not as_json) as move:
        done = brain.backup(destination, replace=replace, on_progress=move)
    if as_json:
        print_value(done)
    else:
        Console().print(Sanitized(_render_backup(done)))


def run_restore(state: GlobalOptions, options: BackupOptions, *, as_json: bool) -> None:
    """Show what would be replaced, ask for confirmation, and replace it.

    Raises:
        InvalidInputError: `--json` without `--yes`: a program cannot confirm.

    """
    # The adapters take long to load; help and completion do without.
    from commonbrain.runtime.callers import check_command_is_of_person  # noqa: PLC0415
    from commonbrain.runtime.stores import preview_restore, restore  # noqa: PLC0415

    check_may_ask(as_json=as_json, is_confirmed=options.is_confirmed, is_dry_run=options.is_dry_run)
    plan = preview_restore(options.file, state.store)
    if options.is_dry_run and as_json:
        print_value(plan)
        return
    if not as_json:
        Console().print(Sanitized(_render_replacement(plan)))
    if options.is_dry_run:
        typer.echo("Nothing was changed. Run it again without --dry-run.")
        return
    check_command_is_of_person("Replacing a store by a backup")
    if not options.is_confirmed:
        typer.confirm("Replace the store with the backup?", abort=True)
    with progress_bar("restoring", is_shown=not as_json) as move:
        done = restore(options.file, state.store, digest=options.digest, on_progress=move)
    if as_json:
        print_value(done)
    else:
        previous = f" The previous store is in {done.kept}." if done.kept else ""
        print_line(f"{done.store} holds {_memories(done.memories)}.{previous}")


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
    table = make_table(
        *("", "memories", "newest", "file"),
        rows=(
            ("comes", *_holdings_row(plan.comes), Text(plan.file)),
            ("goes", *_holdings_row(plan.goes), Text(plan.store)),
        ),
    )
    unseals = "The store is sealed, and will be readable without a key." if plan.unseals else None
    trouble = [Text(one, style="yellow") for one in (plan.trouble, unseals) if one]
    return Group(table, *trouble)


def _memories(count: int) -> str:
    return pluralize(count, "memory", many="memories")


def _holdings_row(held: Holdings | None) -> tuple[str, str]:
    if held is None:
        return "none that can be read", ""
    return f"{held.memories:,}", show_instant(held.newest_at) if held.newest_at else ""


def run_export(state: GlobalOptions, target: Path, *, as_json: bool) -> None:
    """Export everything to a file and print a summary; progress goes to stderr."""
    from commonbrain.runtime.stores import is_sealed  # noqa: PLC0415 see `run_restore`

    state.check_exists()
    with state.open() as brain, progress_bar("exporting", is_shown=not as_json) as move:
        exported = brain.export(target, on_progress=move)
    if as_json:
        print_value(exported)
    else:
        summary = f"{exported.memories:,} memories, {exported.records:,} records in all"
        print_line(f"{exported.path}: {summary}")
        if is_sealed(state.store):
            print_line("The store is sealed, this file is not: whoever reads it reads everything.")
