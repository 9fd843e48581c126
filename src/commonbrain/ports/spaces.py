"""What the house needs of a store's vector spaces: one serves, others may be built beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from commonbrain.domain.errors import Corrupt
from commonbrain.domain.space import KeptSpace, Space


class Spaces(Protocol):
    """The spaces of a store, which all of its tenants share."""

    def listed(self) -> Sequence[KeptSpace]:
        """List those that there are, the oldest first.

        Raises:
            Unavailable: `store_down`, the store cannot be read.

        """
        ...

    def lacking(self, space_id: int) -> Mapping[str, int]:
        """Count by tenant the findable memories that lack vectors in a space; none are left out.

        Raises:
            Unavailable: `store_down`, the store cannot be read.

        """
        ...

    def is_indexed(self, space_id: int) -> bool:
        """Say whether the engine has all that it searches a large space by."""
        ...

    def add(self, space: Space) -> KeptSpace:
        """Give what there is of a space; where there is none it is made, to be built.

        Raises:
            Invalid: `space_mismatch`, there is one of that name with other dimensions.
            Unavailable: the store stayed locked, is full or read-only; nothing was made.

        """
        ...

    def switch(self, name: str) -> KeptSpace:
        """Let another space serve: for every process at once, and in one transaction.

        Nobody writes while it is looked for what the space lacks, so that nothing is overlooked.

        Returns:
            The space that served until then.

        Raises:
            NotFound: there is none of that name.
            Refused: `space_incomplete`, memories lack vectors in it; nothing was changed.
            Unavailable: the store stayed locked, is full or read-only; nothing was changed.

        """
        ...

    def drop(self, name: str) -> KeptSpace:
        """Let a space be none of the store's any more; its vectors are there until swept.

        Raises:
            NotFound: there is none of that name.
            Refused: `space_in_use`, it serves.

        """
        ...

    def dropped(self) -> int:
        """Count the vectors that are left of dropped spaces."""
        ...

    def sweep(self, *, limit: int) -> int:
        """Delete up to so many vectors of dropped spaces of a tenant each; count them."""
        ...


class SpaceMismatch(Corrupt):
    """A store's vectors live in another space, `known` by name; it was left as found."""

    default_code = "space_mismatch"

    def __init__(self, known: str, *, made: str) -> None:
        super().__init__(
            f"This store's vectors live in the space {known}; the embedder makes {made}.",
            hint="Vectors of two spaces cannot be compared. Open it with the embedder that serves; "
            "`brain space build` moves it to another one.",
        )
        self.known = known
