"""Places for the uploads that one process receives at once, shared fairly by the callers."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import UPLOADS_AT_ONCE_MAX, UPLOADS_PER_TENANT_MAX

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPlaces:
    """A few places, of which a tenant gets half and each of its agents one.

    An upload may be slow, so that without these shares one tenant could keep out all others.
    """

    count: int = UPLOADS_AT_ONCE_MAX
    count_per_tenant: int = UPLOADS_PER_TENANT_MAX
    _taken: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The tenant and agent of each upload."""
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def take(self, caller: Caller) -> Generator[None]:
        """Take a place until the block ends, in any thread.

        Raises:
            UnavailableError: `busy`.

        """
        place = (caller.tenant, caller.agent)
        with self._lock:
            self._check_free(place)
            self._taken.add(place)
        try:
            yield
        finally:
            with self._lock:
                self._taken.discard(place)

    def _check_free(self, place: tuple[str, str]) -> None:
        tenant, agent = place
        if place in self._taken:
            reason = f"Another file of {agent} is being uploaded; 1 at a time is allowed."
        elif sum(one == tenant for one, _ in self._taken) >= self.count_per_tenant:
            reason = (
                f"{self.count_per_tenant} files of your tenant are being uploaded, as many as are "
                "allowed at once."
            )
        elif len(self._taken) >= self.count:
            reason = f"{self.count} files of others are being uploaded, as many as fit at once."
        else:
            return
        raise UnavailableError(reason, code="busy", hint="Retry in some seconds.")
