"""The process of a store that several `brain mcp` share: one brain, and a session per client."""

import asyncio
import gc
import json
import logging
import socket
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from threading import Event, Thread
from typing import Final, TypeAlias

import anyio

from commonbrain.api.operation import Profile
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.embeddings.interface import LocalModel
from commonbrain.mcp.connections import (
    Connection,
    LazyBrain,
    LineStream,
    StdioCaller,
    find_client,
)
from commonbrain.mcp.replay import ENDED, RESENT, SESSION
from commonbrain.mcp.tool_calls import CALLS_AT_ONCE_MAX, Delivery
from commonbrain.model.errors import CommonbrainError
from commonbrain.runtime.local_socket import JsonObject, LocalServer
from commonbrain.runtime.settings_loading import load_settings

Answer: TypeAlias = Callable[[JsonObject], JsonObject]
_LOG: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class SharedServer:
    """Serves a store to the clients of this process and of others."""

    store: str | None
    local: LocalServer
    is_background: bool = False
    """Whether this process has no client of its own: it imports the SDK for the first one."""
    observe: Callable[[Answer], Answer] = lambda answer: answer
    """Wraps what answers hooks and commands."""
    _lazy: LazyBrain = field(init=False)
    _sdk: Future[None] = field(default_factory=Future[None])
    """Done when the MCP SDK is imported."""
    _is_warm: bool = False
    """Whether the store is open and the model loaded, or that failed."""
    _needs_sdk: Event = field(default_factory=Event)
    """Set when a client waits for the SDK."""
    _own: Connection | None = None
    """The connection of this process's own client."""
    _is_closing: bool = False

    def __post_init__(self) -> None:
        """Check the settings, so that an invalid one ends the process before it serves.

        Raises:
            InvalidInputError: a setting is invalid.

        """
        load_settings()
        self._lazy = LazyBrain(open=self._open, listen=self._listen)
        # Clients that leave meanwhile do not cancel it.
        self._sdk.set_running_or_notify_cancel()

    def start(self) -> None:
        """Load in the background what clients need."""
        # Its many passes over what is imported take a tenth of the time.
        gc.disable()
        Thread(target=self._load, daemon=True, name="load").start()

    def _load(self) -> None:
        try:
            if self.is_background:
                # Hooks and commands need no SDK.
                self._open_store()
                _freeze()
                self._needs_sdk.wait()
            # It takes a second.
            import_module("commonbrain.mcp.server")
            self._sdk.set_result(None)
        except BaseException as error:
            self._sdk.set_exception(error)
            raise
        finally:
            _freeze()

    def _open_store(self) -> None:
        """Open the store and load the model."""
        try:
            embedder = self._lazy.get().services.embedder
            if isinstance(embedder, LocalModel):
                embedder.load()
        except CommonbrainError:
            # The next call tries again and reports the error.
            pass
        except Exception:  # noqa: BLE001 the process serves more than the store
            _LOG.exception("The store could not be opened")
        self._is_warm = True

    @property
    def is_warm(self) -> bool:
        """Whether the store is open and the model loaded, or that failed."""
        return self._is_warm

    def warm(self) -> None:
        """Open the store in the background once the SDK is imported, though no client calls."""
        self._sdk.add_done_callback(lambda _: self._lazy.warm())

    def serve(self, request: JsonObject, stream: socket.socket, *, is_own: bool = False) -> None:
        """Serve the client of a process, as its request describes it, until either side ends."""
        anyio.run(partial(self._serve, request, stream, is_own=is_own))

    def close(self) -> None:
        """Let another process take over, then close the brain, even if it is being opened."""
        self._is_closing = True
        self.local.close()
        if self._own is not None:
            self._own.close()
        self._lazy.close()

    def _open(self) -> Brain:
        # The adapters take long to load; a client lists the tools without them.
        from commonbrain.runtime.bootstrap import open_brain  # noqa: PLC0415

        return open_brain(self.store, server_name="mcp")

    def _listen(self, brain: Brain) -> LocalServer:
        # Loaded with the brain.
        from commonbrain.runtime.local_requests import answer_requests  # noqa: PLC0415

        # One without a client may end before its worker has begun.
        answer = answer_requests(brain, has_worker=not self.is_background)
        self.local.answer = self.observe(answer)
        if self.local.thread is None:
            self.local.start()
        return self.local

    async def _serve(self, request: JsonObject, peer: socket.socket, *, is_own: bool) -> None:
        stream = await LineStream.open(peer)
        loop = asyncio.get_running_loop()

        def announce(key: str) -> None:
            # Before the answer, which this loop writes after the call.
            loop.call_soon_threadsafe(stream.send, _encode({SESSION: key}))

        connection = Connection(
            find=find_client, reported_session=partial(_last_session, request), on_session=announce
        )
        if is_own:
            self._own = connection
        caller = StdioCaller(
            # An error is raised again by the next call's attempt.
            open=cache(partial(self._brain_for, request)),
            agent=request["agent"],
            connection=connection,
            is_owner=bool(request.get("is_owner")),
            warm=self._lazy.warm,
        )
        profile = Profile(request["profile"] or Settings.model_fields["mcp_profile"].default)
        # If this process ends, its own client ends too, so its calls are not repeated.
        label = partial(_label, request["id"], is_repeatable=not is_own)
        threads = ThreadLimiter(CALLS_AT_ONCE_MAX)

        try:
            self._needs_sdk.set()
            await asyncio.wrap_future(self._sdk)
            from commonbrain.mcp.server import serve_lines  # noqa: PLC0415 see `_load`

            await serve_lines(
                stream,
                caller=caller,
                threads=threads,
                profile=profile,
                label=label,
            )
            await stream.write(_encode({ENDED: True}))
        finally:
            threads.close()
            stream.writer.close()
            if not self._is_closing:
                # Otherwise the client goes on with the next server.
                connection.close()

    def _brain_for(self, request: JsonObject) -> Brain:
        """Return the brain as the client of a request: its names, folder and process."""
        brain = self._lazy.get()
        # Loaded with the brain.
        from commonbrain.runtime.local_requests import brain_for  # noqa: PLC0415

        return brain_for(brain.services, request)


def _freeze() -> None:
    """Collect again, without visiting what was imported, which stays.

    Cycles of calls in progress stay too: to collect first would take 0.1 s, in which all threads
    wait.
    """
    gc.freeze()
    gc.enable()


def _last_session(request: JsonObject, brain: Brain) -> str | None:
    """Return the session that the client had with the server before, else the one it reports."""
    return request["last"] or brain.services.processes.session(brain.caller.agent)


def _encode(control: dict[str, object]) -> bytes:
    """Encode a line for the other process that is not a protocol message."""
    return json.dumps(control).encode() + b"\n"


def _label(id_: str, number: bytes, *, is_repeatable: bool) -> Delivery | None:
    """Return how a message of a process arrived; None if it is the first and only time."""
    plain = number.removesuffix(RESENT)
    is_resent = plain != number
    if not (is_resent or is_repeatable):
        return None
    return Delivery(key=f"mcp-{id_}-{plain.decode()}", is_resent=is_resent)
