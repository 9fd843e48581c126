"""Writers of several tenants that go on until they are stopped."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.storage.store_steps import vectors_for

_TIMEOUT_S = 120


@dataclass(slots=True, kw_only=True)
class Writer:
    """Writes one memory after the other for a tenant; notes what was acknowledged."""

    store: Store
    tenant: str
    changed: Condition = field(default_factory=Condition)
    acknowledged: list[int] = field(default_factory=list[int])
    refused: list[UnavailableError] = field(default_factory=list[UnavailableError])
    failed: list[BaseException] = field(default_factory=list[BaseException])
    is_stopped: bool = False

    def run(self) -> None:
        """Write until stopped."""
        number = 0
        while not self.is_stopped:
            number += 1
            try:
                self.write(number)
            except UnavailableError as error:
                self._note(self.refused, error)
            except BaseException as error:  # noqa: BLE001 the test reports it
                self._note(self.failed, error)
                return
            else:
                self._note(self.acknowledged, number)

    def stop(self) -> None:
        """Stop after the present write."""
        self.is_stopped = True

    def write(self, number: int) -> None:
        """Write one memory."""
        memory = a_memory(number, f"tea number {number}")
        with self.store.begin(self.tenant) as tx:
            tx.memories.add(memory)
            tx.index.put(memory, vectors_for(memory))

    def _note(self, noted: list[Any], value: object) -> None:
        with self.changed:
            noted.append(value)
            self.changed.notify_all()

    def wait_for_more(self, *, count: int = 5) -> None:
        """Wait until more was acknowledged."""
        self._wait(self.acknowledged, count)

    def wait_for_refusal(self) -> None:
        """Wait until one more write was refused."""
        self._wait(self.refused, 1)

    def _wait(self, noted: Sequence[object], count: int) -> None:
        with self.changed:
            until = len(noted) + count
            self.changed.wait_for(lambda: len(noted) >= until or self.failed, _TIMEOUT_S)
            assert not self.failed, self.failed
            assert len(noted) >= until

    def lost(self) -> set[int]:
        """Return what was acknowledged and is not there."""
        with self.store.snapshot(self.tenant) as tx:
            return set(self.acknowledged) - set(tx.memories.get(self.acknowledged))


@contextmanager
def writing(store: Store, *tenants: str) -> Generator[list[Writer]]:
    """Write for tenants in threads of their own until the block ends."""
    writers = [Writer(store=store, tenant=tenant) for tenant in tenants]
    with ExitStack() as stack:
        for writer in writers:
            thread = Thread(target=writer.run, daemon=True)
            thread.start()
            stack.callback(thread.join, _TIMEOUT_S)
            stack.callback(writer.stop)
        yield writers
