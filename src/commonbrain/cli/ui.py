"""`brain ui`: the web page of this machine's store."""

import socket
import webbrowser
from contextlib import closing

import typer
import uvicorn

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.cli.context import State
from commonbrain.model.errors import InvalidInputError
from commonbrain.web.app import make_page
from commonbrain.web.local_sessions import LocalSessions

_HOST = "127.0.0.1"
_CALLS_AT_ONCE = 4
"""One person reads; pages of several tabs may load together."""
_REQUEST_S = 30.0


def run_ui(state: State, *, port: int, opens_browser: bool) -> None:
    """Serve the page on loopback until stopped, and open it in the browser.

    Raises:
        InvalidInputError: `port_taken`, another program listens on the port.
        UnavailableError: the store cannot be opened.

    """
    with closing(_listen(port)) as listener, state.open(server_name="ui") as brain:
        sessions = LocalSessions(brain.caller, brain.services.clock)
        threads = ThreadLimiter(
            _CALLS_AT_ONCE,
            seconds_max=_REQUEST_S,
            around=brain.services.store.consistent_reads,
        )
        page = make_page(brain, sessions, threads=threads)
        url = f"http://{_HOST}:{listener.getsockname()[1]}"
        typer.echo(f"The page is at {url}; Ctrl-C ends it.", err=True)
        # The link is a secret: it is printed only if no browser takes it.
        link = f"{url}/open?token={sessions.make_link()}"
        if not (opens_browser and webbrowser.open(link)):
            typer.echo(f"Open this link; it works once:\n{link}")
        config = uvicorn.Config(
            page, log_level="warning", access_log=False, server_header=False, lifespan="off"
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            threads.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"Port {port} cannot be used: {error.strerror}.",
            code="port_taken",
            hint="Leave out --port for a free one.",
        ) from error
    return listener
