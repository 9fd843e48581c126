"""`brain seal` and `brain unseal`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import check_may_ask, print_line, print_value, progress_bar
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import pluralize

if TYPE_CHECKING:
    from commonbrain.storage.sqlite.resealing import Sealing, SealPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SealOptions:
    """Where the key is, and whether the change is confirmed or only previewed."""

    key_file: Path | None = None
    uses_keyring: bool = False
    is_rotation: bool = False
    is_confirmed: bool
    is_dry_run: bool


def run_seal(state: GlobalOptions, options: SealOptions, *, as_json: bool) -> None:
    """Show what is sealed and what stays plain, ask for confirmation, and seal it.

    Raises:
        InvalidInputError: both a file and the keyring are named, or there is no terminal to ask at.

    """
    # The adapters take long to load; help and completion do without.
    from commonbrain.runtime.stores import sealing_with  # noqa: PLC0415

    if options.key_file is not None and options.uses_keyring:
        raise InvalidInputError("Both --key-file and --keyring are given.", hint="Give one.")
    sealing = sealing_with(
        state.store,
        key_file=options.key_file,
        uses_keyring=options.uses_keyring,
        is_rotation=options.is_rotation,
        ask=lambda: _new_passphrase(state),
    )
    _change(state, sealing, options=options, as_json=as_json)


def run_unseal(state: GlobalOptions, options: SealOptions, *, as_json: bool) -> None:
    """Show what is unsealed, ask for confirmation, and unseal it."""
    _change(state, None, options=options, as_json=as_json)


def _new_passphrase(state: GlobalOptions) -> str:
    from getpass import getpass  # noqa: PLC0415 a terminal alone needs it

    if not state.output.is_interactive:
        raise InvalidInputError(
            "There is no terminal to ask for a passphrase at.",
            hint="Name a file for the key with --key-file, or use --keyring.",
        )
    passphrase = getpass("New passphrase: ")
    if getpass("The same again: ") != passphrase:
        raise InvalidInputError("The two differ.", hint="Nothing was changed. Try again.")
    return passphrase


def _change(
    state: GlobalOptions, sealing: Sealing | None, *, options: SealOptions, as_json: bool
) -> None:
    from commonbrain.runtime.callers import check_command_is_of_person  # noqa: PLC0415
    from commonbrain.runtime.signals import stopped_by_signals  # noqa: PLC0415
    from commonbrain.runtime.stores import preview_sealing, reseal  # noqa: PLC0415

    check_may_ask(as_json=as_json, is_confirmed=options.is_confirmed, is_dry_run=options.is_dry_run)
    plan = preview_sealing(state.store, sealing)
    if not as_json:
        _print_plan(plan)
    if options.is_dry_run:
        if as_json:
            print_value(plan)
        else:
            typer.echo("Nothing was changed. Run it again without --dry-run.")
        return
    check_command_is_of_person("Sealing or unsealing a store")
    if not options.is_confirmed:
        typer.confirm("Go on?", abort=True)
    # A killed process would leave a copy that may be readable without a key.
    with stopped_by_signals(1), progress_bar("copying", is_shown=not as_json) as move:
        done = reseal(state.store, sealing, on_progress=move)
    if as_json:
        print_value(done)
    elif done.seals_with is None:
        print_line(f"{done.store} is not sealed any more. Its key is where it was.")
    else:
        print_line(f"{done.store} is sealed with {_key(done.seals_with)}.")


def _key(source: str) -> str:
    return source if source == "a passphrase" else f"a key in {source}"


def _print_plan(plan: SealPlan) -> None:
    """Print what changes, what stays plain, and what cannot be undone."""
    count = pluralize(plan.holds.memories, "memory", many="memories")
    if plan.seals_with is None:
        print_line(f"{plan.store} with {count} will be readable without a key.")
        return
    print_line(f"{plan.store} with {count} will be sealed with {_key(plan.seals_with)}.")
    print_line(
        "Without it no one can read the store, nor its backups from now on: keep a copy of it on "
        "another machine."
    )
    if plan.plain_copies:
        print_line("These copies stay as they are, readable without a key. Delete or seal them:")
        for copy in plan.plain_copies:
            print_line(f"  {copy}")
