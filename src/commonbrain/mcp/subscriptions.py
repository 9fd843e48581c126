"""Subscriptions to the inbox: a client learns that a message has arrived, and reads it itself."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.mcp.resources import INBOX_URI
from commonbrain.model.errors import CommonbrainError

_POLL_S: Final = 2.0
"""How often the inbox is read: any process may store a message. It takes less than 1 ms."""
_STREAMS_MAX: Final = 4
"""Streams of one agent; a client needs one."""


class InboxServer(Server[Any]):
    """A server of which the inbox can change, but no list."""

    def get_capabilities(
        self,
        *args: Any,  # noqa: ANN401 as the library has them
        **more: Any,  # noqa: ANN401
    ) -> types.ServerCapabilities:
        """Return what the library derives, without changes of lists."""
        capabilities = super().get_capabilities(*args, **more)
        for one in (capabilities.tools, capabilities.prompts, capabilities.resources):
            if one is not None:
                one.list_changed = False
        return capabilities


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
    is_admitted: Callable[[ServerRequestContext[Any]], Awaitable[bool]]
    """Returns whether a message's caller may still do what it could when the message arrived."""
    threads: ThreadLimiter
    _streams: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Open streams, by tenant and agent."""
    _subscribed: anyio.CancelScope | None = None

    async def listen(
        self, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream until the client ends it, or its credential is no longer valid.

        The acknowledgement names the inbox alone: lists do not change.
        """
        _check_is_inbox(*(params.notifications.resource_subscriptions or ()))
        inbox = types.SubscriptionFilter(resource_subscriptions=[INBOX_URI])
        brain = await self.open_inbox(context)
        agent = (brain.caller.tenant, brain.caller.agent)
        if self._streams[agent] >= _STREAMS_MAX:
            raise MCPError(
                types.INVALID_PARAMS,
                f"limit_exceeded: An agent has at most {_STREAMS_MAX} streams.",
            )
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)
        notify = partial(bus.publish, ResourceUpdated(uri=INBOX_URI))

        async def feed() -> None:
            await self._watch(context, brain, notify=notify)
            stream.close()

        self._streams[agent] += 1
        result = types.SubscriptionsListenResult()
        try:
            async with anyio.create_task_group() as tasks:
                # It starts when the stream first waits, and that has subscribed to the bus by then.
                tasks.start_soon(feed)
                result = await stream(context, params.model_copy(update={"notifications": inbox}))
                tasks.cancel_scope.cancel()
        finally:
            self._streams[agent] -= 1
        return result

    async def subscribe(
        self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify the client of a connection of arrivals, until it unsubscribes or ends."""
        _check_is_inbox(str(params.uri))
        brain = await self.open_inbox(context)
        self._cancel()
        self._subscribed = anyio.CancelScope()
        tasks: TaskGroup = context.lifespan_context
        notify = partial(context.session.send_resource_updated, INBOX_URI)
        watch = partial(self._watch, notify=notify, within=self._subscribed)
        tasks.start_soon(watch, context, brain)
        return types.EmptyResult()

    async def unsubscribe(
        self, _context: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End the subscription; nothing happens if there is none."""
        _check_is_inbox(str(params.uri))
        self._cancel()
        return types.EmptyResult()

    def _cancel(self) -> None:
        if self._subscribed is not None:
            self._subscribed.cancel()
            self._subscribed = None

    async def _watch(
        self,
        context: ServerRequestContext[Any],
        brain: Brain,
        *,
        notify: Callable[[], Awaitable[None]],
        within: anyio.CancelScope | None = None,
    ) -> None:
        """Notify a caller that is still admitted of each arrival, and of unread ones at first."""
        newest = 0
        with within or anyio.CancelScope():
            while True:
                # If the store is busy, the next reading may succeed.
                with suppress(CommonbrainError):
                    if not await self.is_admitted(context):
                        return
                    last, newest = newest, await self.threads.run(brain.message.newest_unread)
                    if newest > last:
                        await notify()
                await anyio.sleep(_POLL_S)


def _check_is_inbox(*uris: str) -> None:
    if set(uris) != {INBOX_URI}:
        refused = ", ".join(uris)[:100] or "lists"
        raise MCPError(
            types.INVALID_PARAMS,
            f"not_found: There are no subscriptions to {refused}, only to {INBOX_URI}.",
        )
