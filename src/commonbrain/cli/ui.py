"""`brain ui`: the web page of this machine's store."""

import socket
import webbrowser
from contextlib import closing

import typer
import uvicorn

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.cli.context import State
from commonbrain.jobs.worker import EmbeddedWorker
from commonbrain.model.errors import InvalidInputError
from commonbrain.web.app import make_page
from commonbrain.web.backups import Backups
from commonbrain.web.local_sessions import LocalSessions

_HOST = "127.0.0.1"
_CALLS_AT_ONCE = 4
"""One person reads; pages of several tabs may load together."""
_REQUEST_S = 30.0
_WORKER_DELAY_S = 2.0
"""Leaves the processor to the first page."""
_DOWNLOAD_S = 5
"""Seconds that the end of the command waits for downloads."""


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
        backups = Backups.of(brain)
        page = make_page(brain, sessions, threads=threads, backups=backups)
        url = f"http://{_HOST}:{listener.getsockname()[1]}"
        typer.echo(f"The page is at {url}; Ctrl-C ends it.", err=True)
        # The link is a secret: it is printed only if no browser takes it.
        link = f"{url}/open?token={sessions.make_link()}"
        if not (opens_browser and webbrowser.open(link)):
            typer.echo(f"Open this link; it works once:\n{link}")
        config = uvicorn.Config(
            page,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_DOWNLOAD_S,
        )
        worker = EmbeddedWorker(brain.services, start_delay_s=_WORKER_DELAY_S)
        worker.start()
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            worker.close()
            if backups is not None:
                backups.close()
            threads.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        # From now on a browser that is faster than the server waits for it.
        listener.listen()
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"Port {port} cannot be used: {error.strerror}.",
            code="port_taken",
            hint="Leave out --port for a free one.",
        ) from error
    return listener
