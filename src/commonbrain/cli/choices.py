"""What a shell can complete beyond names of commands and options: the values of closed sets.

`CHOICES` is the table for the fields of operations. Nothing that is stored is completed: a shell
that asks for ids at each key press would open the store each time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from commonbrain.model.kinds import CausalField, Kind, Severity
from commonbrain.model.scope import Scope
from commonbrain.model.trust import Trust

Complete = Callable[[str], list[str]]
"""Takes the beginning of a word and gives the words it may become, as Typer calls it."""


def complete_from(names: Callable[[], Iterable[str]]) -> Complete:
    """Complete to the names that are given when the shell asks, and not before."""

    def complete(incomplete: str) -> list[str]:
        return [str(name) for name in names() if name.startswith(incomplete)]

    return complete


def clients() -> Iterable[str]:
    """Name the clients that can be connected."""
    # Loaded when a shell asks for them: no command waits for it.
    from commonbrain.integrations import CLIENTS  # noqa: PLC0415

    return CLIENTS


def client_scopes() -> Iterable[str]:
    """Name what any of the clients can be connected for."""
    from commonbrain.integrations import CLIENTS  # noqa: PLC0415 see clients

    return dict.fromkeys(scope for client in CLIENTS.values() for scope in client.scopes)


def formats() -> Iterable[str]:
    """Name the formats that can be imported."""
    from commonbrain.transfer.importers import IMPORTERS  # noqa: PLC0415 see clients
    from commonbrain.transfer.merge import OWN_FORMAT  # noqa: PLC0415 see clients

    return [*IMPORTERS, OWN_FORMAT]


CHOICES: Final[Mapping[str, Complete]] = {
    "field": complete_from(lambda: CausalField),
    "kind": complete_from(lambda: Kind),
    "kinds": complete_from(lambda: Kind),
    "scope": complete_from(lambda: Scope),
    "severity": complete_from(lambda: Severity),
    "trust": complete_from(lambda: Trust),
}
"""By the name of a request's field."""
