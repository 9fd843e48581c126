"""Foreign formats in, drafts out, lazily.

`IMPORTERS` is the core's table. Packages add others by entry points of the group
`commonbrain.importers`: the name of the format, and an `Importer`.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from commonbrain.extras import load_rows
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Importer
from commonbrain.transfer.importers.claude_code import ClaudeCode
from commonbrain.transfer.importers.codex import Codex
from commonbrain.transfer.importers.markdown import MarkdownFolder

IMPORTERS: Final[Mapping[str, Importer]] = {
    importer.name: importer for importer in (MarkdownFolder(), ClaudeCode(), Codex())
}


class InstalledImporters(Mapping[str, Importer]):
    """The core's importers and those of packages, which load when another format is asked for."""

    @cached_property
    def _packaged(self) -> Mapping[str, object]:
        rows = load_rows("importers")
        return {name: row for name, row in rows.items() if name not in IMPORTERS}

    def is_packaged(self, name: str) -> bool:
        """Return whether a format is of a package, not of the core."""
        return name not in IMPORTERS

    def __getitem__(self, name: str) -> Importer:
        """Return an importer.

        Raises:
            InvalidInputError: `extra_missing`; what a package has by this name is none.

        """
        row = IMPORTERS[name] if name in IMPORTERS else self._packaged[name]
        if not isinstance(row, Importer):
            raise InvalidInputError(
                f"What a package adds to import {name} is not an Importer of this version.",
                code="extra_missing",
                hint="Update it; its class derives from commonbrain.transfer.importer.Importer.",
            )
        return row

    def __iter__(self) -> Iterator[str]:
        packaged = (name for name, row in self._packaged.items() if isinstance(row, Importer))
        return iter((*IMPORTERS, *packaged))

    def __len__(self) -> int:
        return sum(1 for _ in self)
