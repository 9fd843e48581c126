"""Backup: everything in one file that can be carried away, written while others write."""

from dataclasses import dataclass
from pathlib import Path

from commonbrain.domain.scope import Caller
from commonbrain.flows.house import House
from commonbrain.ports.keeping import Backup, Progress, unwatched


@dataclass(frozen=True, slots=True)
class Keep:
    """Backing up for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        destination: str | Path,
        *,
        replace: bool = False,
        on_progress: Progress = unwatched,
    ) -> Backup:
        """Write everything, as of one moment, into a file that is verified before it appears.

        Args:
            destination: the file to write.
            replace: put it in the place of a file that is there.
            on_progress: told how far it has come, 0..1.

        Raises:
            Invalid: the destination exists and is not to be replaced, or is the store itself.
            Unavailable: the destination cannot be written; it is as it was.
            Corrupt: the store is damaged; the destination is as it was.

        """
        return self.house.store.backup(
            Path(destination).expanduser(), replace=replace, on_progress=on_progress
        )
