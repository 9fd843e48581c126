"""The command `brain setup`: connects the clients on this machine, and fills the memory."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import typer
from rich.console import Console

from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.cli.connect import (
    ConnectOptions,
    install_for_good,
    mark_hooks,
    plan_changes,
)
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.filling import Filling, agent_sources, describe_sources, fill
from commonbrain.cli.imports import choose, sources_table
from commonbrain.cli.session_cost import describe_cost, measure_cost
from commonbrain.cli.terminal import (
    Sanitized,
    check_may_ask,
    print_line,
    print_table,
    print_value,
    short_path,
)
from commonbrain.hosts import is_url
from commonbrain.integrations import CLIENTS, HOOKS_FILES, ConfigEdit, apply
from commonbrain.integrations.detection import FoundClient, find_clients
from commonbrain.integrations.restoring import Restoration, UndoneFile, restore
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.transfer.imports import FoundSource

_T = TypeVar("_T")
_LOCAL: Final = "Everything stays on this machine: nothing is sent anywhere."


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """What to set up, and whether to ask."""

    clients: tuple[str, ...]
    """Named by the user; by default those that are found."""
    has_hooks: bool
    has_import: bool
    is_confirmed: bool
    is_dry_run: bool
    is_forced: bool
    waits: bool
    """Whether the import runs in this process, also without a terminal."""
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """A client to connect, with the changes that this takes, or why it stays as it is."""

    name: str
    place: Path | None
    """Where it was found; None if the user named it."""
    changes: tuple[ConfigEdit, ...] = ()
    error: CommonbrainError | None = None

    @property
    def needed(self) -> Sequence[ConfigEdit]:
        return [one for one in self.changes if one.is_needed]

    @property
    def outcome(self) -> str:
        return "refused" if self.error else "connected" if self.needed else "unchanged"

    def as_json(self, *, is_dry_run: bool) -> Mapping[str, object]:
        """Return it for programs."""
        shown: dict[str, object] = {"client": self.name, "outcome": self.outcome}
        if is_dry_run and self.needed:
            shown["outcome"] = "would be connected"
        if self.place is not None:
            shown["found"] = str(self.place)
        if self.error is not None:
            return {**shown, "reason": self.error.message, "hint": self.error.hint}
        files = [
            {
                "path": str(one.path),
                "steps": list(one.steps),
                "backup": None if one.is_new else str(one.backup),
            }
            for one in self.needed
        ]
        return {**shown, "files": files}

    def describe(self, *, is_dry_run: bool) -> str:
        """Say in a line what changes, or why nothing does."""
        if self.error is not None:
            return f"{self.name}: left as it is. {self.error.message} {self.error.hint or ''}"
        if not self.needed:
            return f"{self.name}: connected already, nothing to change."
        steps = [
            f"{step[:1].lower()}{step[1:]} {short_path(one.path)}"
            for one in self.needed
            for step in one.steps
        ]
        backups = [short_path(one.backup) for one in self.needed if not one.is_new]
        backup = f" Backup: {', '.join(backups)}." if backups and not is_dry_run else ""
        return f"{self.name}: {'would have ' if is_dry_run else ''}{', '.join(steps)}.{backup}"


def run_setup(state: GlobalOptions, options: SetupOptions) -> None:
    """Connect the clients that the user chooses, and import the sources that they choose.

    Without a terminal and `--yes`, it only shows what it would do.

    Raises:
        InvalidInputError: there is no such client, or the output is JSON and nothing is confirmed.
        UnavailableError: the store cannot be opened; clients are connected already.

    """
    check_may_ask(
        as_json=options.as_json, is_confirmed=options.is_confirmed, is_dry_run=options.is_dry_run
    )
    clients = [_plan(state, options, found=one) for one in _select(options.clients)]
    sources = agent_sources() if options.has_import else []
    asks = state.output.is_interactive and not options.is_confirmed
    if options.is_dry_run or not (asks or options.is_confirmed):
        _show_preview(state, clients, sources=sources, as_json=options.as_json)
        return
    if not options.as_json:
        _print_clients(clients)
    if asks:
        clients = _ask("Connect", clients, names=[one.name for one in clients])
    clients = _connect(clients, options)
    if not options.as_json:
        _print_changes(clients, is_dry_run=False)
        _print_sources(state, sources)
    if asks:
        sources = _ask("Import", sources, names=[one.format for one in sources])
    waits = options.waits or (state.output.is_interactive and not options.as_json)
    filling = fill(state, sources, waits=waits, is_shown=not options.as_json)
    _finish(state, clients, filling=filling, as_json=options.as_json)


def _select(named: Sequence[str]) -> list[FoundClient | str]:
    """Return the clients that the user named, or else those on this machine."""
    detected = {one.name: one for one in find_clients()}
    check_known(named)
    return [detected.get(name, name) for name in dict.fromkeys(named or detected)]


def check_known(named: Sequence[str]) -> None:
    """Check that all names are of clients.

    Raises:
        InvalidInputError: one is not; nothing was changed.

    """
    if unknown := sorted(set(named) - set(CLIENTS)):
        raise InvalidInputError(
            f"There is no client {unknown[0][:40]!r}.",
            hint=f"Choose one of {', '.join(CLIENTS)}.",
        )


def _plan(state: GlobalOptions, options: SetupOptions, *, found: FoundClient | str) -> _Client:
    name = found if isinstance(found, str) else found.name
    place = None if isinstance(found, str) else found.place
    connecting = ConnectOptions(
        client=name, hooks=options.has_hooks and name in HOOKS_FILES, force=options.is_forced
    )
    try:
        changes = plan_changes(state, connecting)
    except CommonbrainError as error:
        # The next client has nothing to do with this one.
        return _Client(name=name, place=place, error=error)
    return _Client(name=name, place=place, changes=tuple(changes))


def _connect(clients: Sequence[_Client], options: SetupOptions) -> list[_Client]:
    """Apply the changes, and note which clients have hooks; return clients with their errors."""
    if any(one.needed for one in clients):
        install_for_good()
    return [one if one.error else _connect_one(one, options) for one in clients]


def _connect_one(client: _Client, options: SetupOptions) -> _Client:
    try:
        for change in client.needed:
            apply(change)
    except CommonbrainError as error:
        return replace(client, error=error)
    has_hooks = options.has_hooks and client.name in HOOKS_FILES
    mark_hooks(ConnectOptions(client=client.name, hooks=has_hooks))
    return client


def _ask(verb: str, rows: list[_T], *, names: Sequence[str]) -> list[_T]:
    """Let the user choose rows of the list above by their numbers or names."""
    if not rows:
        return rows
    typed = typer.prompt(f"{verb} which (numbers or names, all or none)", default="all")
    return choose(rows, typed, names=names)


def _print_clients(clients: Sequence[_Client]) -> None:
    if not clients:
        print_line(
            "No client was found. Name one: brain setup --client NAME, with NAME one of "
            f"{', '.join(CLIENTS)}."
        )
        return
    rows = [
        (
            str(number),
            one.name,
            short_path(one.place) if one.place else "named by you",
            "server and hooks" if one.name in HOOKS_FILES else "server",
        )
        for number, one in enumerate(clients, 1)
    ]
    print_table("", "client", "found", "gets", rows=rows)


def _print_changes(clients: Sequence[_Client], *, is_dry_run: bool) -> None:
    for one in clients:
        print_line(one.describe(is_dry_run=is_dry_run))


def _print_sources(state: GlobalOptions, sources: Sequence[FoundSource]) -> None:
    if sources:
        Console().print(Sanitized(sources_table(sources)))
        local = "" if is_url(state.store or "") else f" {_LOCAL}"
        print_line(f"To import: {describe_sources(sources)}.{local}")


def _show_preview(
    state: GlobalOptions,
    clients: Sequence[_Client],
    *,
    sources: Sequence[FoundSource],
    as_json: bool,
) -> None:
    if as_json:
        shown = [one.as_json(is_dry_run=True) for one in clients]
        print_value({"clients": shown, "sources": sources})
        return
    _print_clients(clients)
    _print_changes(clients, is_dry_run=True)
    _print_sources(state, sources)
    print_line("Nothing was changed. brain setup --yes does all of this.")


def _finish(
    state: GlobalOptions, clients: Sequence[_Client], *, filling: Filling, as_json: bool
) -> None:
    """Print numbers, what to try, what a session costs and how to undo it."""
    with state.open() as brain:
        cost = measure_cost(brain, state.profile())
        advice = [one.hint for one in brain.doctor.languages()]
    attempt = f'brain recall "{filling.query}"' if filling.query else None
    if as_json:
        print_value(
            {
                "clients": [one.as_json(is_dry_run=False) for one in clients],
                "sources": [one.as_json() for one in filling.sources],
                "is_importing": filling.is_running,
                "needs_review": filling.needs_review,
                "tokens": asdict(cost),
                "try": attempt,
                "advice": advice,
                "undo": "brain setup --undo",
            }
        )
    else:
        _print_filling(filling, attempt=attempt)
        for line in advice:
            print_line(line)
        print_line(describe_cost(cost))
        changed = [one.name for one in clients if one.outcome == "connected"]
        restart = f"Restart {', '.join(changed)}. " if changed else ""
        print_line(f"{restart}To undo the connections: brain setup --undo")
    if any(one.error for one in (*clients, *filling.sources)):
        raise typer.Exit(EXIT_REFUSED)


def _print_filling(filling: Filling, *, attempt: str | None) -> None:
    for one in filling.sources:
        if one.error is not None:
            print_line(f"{short_path(one.source.path)}: {one.error.message}")
    if filling.reports:
        print_line(filling.describe())
        if filling.needs_review:
            print_line("Imported rules wait until the user confirms them: brain review")
    if filling.queued:
        jobs = ", ".join(one.job or "" for one in filling.queued)
        how = "in the background" if filling.is_running else "when a worker runs: brain worker"
        print_line(f"The import goes on {how}: brain job list ({jobs})")
    if attempt:
        print_line(f"Try: {attempt}")


def run_undo(state: GlobalOptions, options: SetupOptions) -> None:
    """Disconnect all clients, or those that are named; their files become what they were.

    An entry of the same name that starts something else stays, as `connect` leaves it.

    Raises:
        InvalidInputError: there is no such client.

    """
    check_known(options.clients)
    undone, errors = list[tuple[str, UndoneFile]](), list[tuple[str, CommonbrainError]]()
    for name in options.clients or CLIENTS:
        try:
            # It raises for an entry that is not ours.
            plan_changes(state, ConnectOptions(client=name, force=options.is_forced))
            undone += [(name, one) for one in restore(name)]
            mark_hooks(ConnectOptions(client=name, remove=True))
        except CommonbrainError as error:
            errors.append((name, error))
    if options.as_json:
        files = [{"client": name, "path": str(one.path), "how": one.how} for name, one in undone]
        refused = [{"client": name, "reason": error.message} for name, error in errors]
        print_value({"files": files, "refused": refused})
    else:
        for name, one in undone:
            print_line(f"{name}: {_UNDONE[one.how]} {short_path(one.path)}.")
        for name, error in errors:
            print_line(f"{name}: left as it is. {error.message} brain connect {name} --remove")
        print_line("Memories stay. Restart the clients." if undone else "No client was connected.")
    if errors:
        raise typer.Exit(EXIT_REFUSED)


_UNDONE: Final = {
    Restoration.RESTORED: "restored",
    Restoration.DELETED: "deleted the new file",
    Restoration.REMOVED: "removed the entries of commonbrain from",
}


def run_cost(state: GlobalOptions, *, as_json: bool) -> None:
    """Print what a session costs in tokens.

    Raises:
        UnavailableError: the store cannot be opened.

    """
    with state.open() as brain:
        cost = measure_cost(brain, state.profile())
    if as_json:
        print_value({**asdict(cost), "session": cost.session})
    else:
        print_line(describe_cost(cost))
