"""`brain ui`: the web page of this machine's store."""

import os
import socket
import webbrowser
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import Final

import typer
import uvicorn

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.cli.context import GlobalOptions
from commonbrain.jobs.worker import EmbeddedWorker
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.callers import check_command_is_of_person
from commonbrain.runtime.signals import stopped_by_signals
from commonbrain.web.app import make_page
from commonbrain.web.backups import Backups
from commonbrain.web.logins import LinkLogins
from commonbrain.web.page_settings import PageSettings
from commonbrain.web.private_path import PrivatePath, new_private_path

_HOST = "127.0.0.1"
_CALLS_AT_ONCE = 4
"""One person reads; pages of several tabs may load together."""
_REQUEST_S = 30.0
_WORKER_DELAY_S = 2.0
"""Leaves the processor to the first page."""
_DOWNLOAD_S = 5
"""Seconds that the end of the command waits for downloads."""


def run_ui(state: GlobalOptions, *, port: int, opens_browser: bool) -> None:
    """Serve the page on loopback until stopped, and open it in the browser.

    Raises:
        InvalidInputError: `port_taken`, another program listens on the port.
        UnavailableError: the store cannot be opened.

    """
    check_command_is_of_person("Opening the page, on which people decide,")
    with (
        closing(_listen(port)) as listener,
        state.open(server_name="ui") as brain,
        stopped_by_signals(),
        ExitStack() as files,
    ):
        sessions = LinkLogins(brain.caller, brain.services.clock)
        threads = ThreadLimiter(
            _CALLS_AT_ONCE,
            seconds_max=_REQUEST_S,
            around=brain.services.store.consistent_reads,
        )
        backups = Backups.of(brain)
        settings = PageSettings(path=new_private_path())
        page = make_page(brain, sessions, threads=threads, settings=settings, backups=backups)
        url = f"http://{_HOST}:{listener.getsockname()[1]}{settings.path}"
        typer.echo(f"The page is at {url}/; Ctrl-C ends it.", err=True)
        link = f"{url}/open?token={sessions.make_link()}"
        config = uvicorn.Config(
            PrivatePath(page, path=settings.path),
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=_DOWNLOAD_S,
        )
        worker = EmbeddedWorker(brain.services, start_delay_s=_WORKER_DELAY_S)
        worker.start()
        try:
            is_opened = opens_browser and _open_browser(link, files)
            hint = "If the page does not open, use" if is_opened else "Open"
            typer.echo(f"{hint} this link; it works once:\n{link}")
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            worker.close()
            if backups is not None:
                backups.close()
            threads.close()


def _open_browser(link: str, files: ExitStack) -> bool:
    """Open a browser by a file of `files`; return whether there is one."""
    try:
        return webbrowser.open(files.enter_context(redirect_page(link)))
    except OSError:
        # Temporary files cannot be written, so that only the printed link is left.
        return False


@contextmanager
def redirect_page(link: str) -> Generator[str]:
    """Write a page that only this user can read and that leads to a link; delete it afterwards.

    A browser gets what it opens as an argument, which every user of the machine can list: it gets
    the address of this file instead of the secret in the link.
    """
    descriptor, name = mkstemp(prefix="commonbrain-", suffix=".html")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_REDIRECT.format(link))
        yield Path(name).as_uri()
    finally:
        Path(name).unlink(missing_ok=True)


_REDIRECT: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>Commonbrain</title>
<p><a href="{0}">Open the page</a></p>
</html>
"""


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
