"""Subscriptions to the inbox: a client learns that a message has arrived, and reads it itself."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.mcp.resources import INBOX_URI
from commonbrain.model.errors import CommonbrainError

_POLL_S: Final = 2.0
"""How often the inbox is read: any process may store a message. It takes less than 1 ms."""
_STREAMS_MAX: Final = 4
"""Streams of one agent; a client needs one."""
_STREAM_S: Final = 600.0
"""A stream over HTTP ends after this time, so that its client shows a credential that holds."""


@asynccontextmanager
async def background_tasks(_server: object) -> AsyncGenerator[TaskGroup]:
    """Run tasks that outlive a request, until the connection ends."""
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


@dataclass(slots=True, kw_only=True)
class Subscriptions:
    """Serves `subscriptions/listen`, and `resources/subscribe` of older protocols."""

    open_inbox: Callable[[ServerRequestContext[Any]], Awaitable[Brain]]
    """Returns the brain of a message's caller, who may read the inbox."""
    threads: ThreadLimiter
    is_duplex: bool
    """Whether the connection is one client's, to which the server can send at any time."""
    _streams: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Open streams, by tenant and agent."""
    _subscribed: anyio.CancelScope | None = None

    async def listen(
        self, context: ServerRequestContext[Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream until the client ends it."""
        brain = await self.open_inbox(context)
        agent = (brain.caller.tenant, brain.caller.agent)
        if self._streams[agent] >= _STREAMS_MAX:
            raise MCPError(
                INVALID_PARAMS, f"limit_exceeded: An agent has at most {_STREAMS_MAX} streams."
            )
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        self._streams[agent] += 1
        result = SubscriptionsListenResult()
        try:
            async with anyio.create_task_group() as tasks:
                # These start when the stream first waits, and it has subscribed to the bus by then.
                if INBOX_URI in (params.notifications.resource_subscriptions or ()):
                    notify = partial(bus.publish, ResourceUpdated(uri=INBOX_URI))
                    tasks.start_soon(self._watch, brain, notify)
                if not self.is_duplex:
                    tasks.start_soon(_end_in_time, stream)
                result = await stream(context, params)
                tasks.cancel_scope.cancel()
        finally:
            self._streams[agent] -= 1
        return result

    async def subscribe(
        self, context: ServerRequestContext[Any], params: SubscribeRequestParams
    ) -> EmptyResult:
        """Notify the client of a connection of arrivals, until it unsubscribes or ends."""
        _check_is_inbox(str(params.uri))
        brain = await self.open_inbox(context)
        self._cancel()
        self._subscribed = anyio.CancelScope()
        tasks: TaskGroup = context.lifespan_context
        notify = partial(context.session.send_resource_updated, INBOX_URI)
        tasks.start_soon(partial(self._watch, brain, notify, within=self._subscribed))
        return EmptyResult()

    async def unsubscribe(
        self, _context: ServerRequestContext[Any], params: UnsubscribeRequestParams
    ) -> EmptyResult:
        """End the subscription; nothing happens if there is none."""
        _check_is_inbox(str(params.uri))
        self._cancel()
        return EmptyResult()

    def _cancel(self) -> None:
        if self._subscribed is not None:
            self._subscribed.cancel()
            self._subscribed = None

    async def _watch(
        self,
        brain: Brain,
        notify: Callable[[], Awaitable[None]],
        *,
        within: anyio.CancelScope | None = None,
    ) -> None:
        """Notify of each arrival, and at the start if a message is unread."""
        newest = 0
        with within or anyio.CancelScope():
            while True:
                # If the store is busy, the next reading may succeed.
                with suppress(CommonbrainError):
                    last, newest = newest, await self.threads.run(brain.message.newest_unread)
                    if newest > last:
                        await notify()
                await anyio.sleep(_POLL_S)


def _check_is_inbox(uri: str) -> None:
    if uri != INBOX_URI:
        raise MCPError(
            INVALID_PARAMS,
            f"not_found: {uri[:100]} has no subscriptions. Only {INBOX_URI} has.",
        )


async def _end_in_time(stream: ListenHandler) -> None:
    await anyio.sleep(_STREAM_S)
    stream.close()
