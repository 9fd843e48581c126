"""The login at an identity provider in a browser, on a server as people start it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from tests.browser.axe import serious_faults
from tests.browser.conftest import HEIGHT, NARROW, TIMEOUT_MS, WIDE
from tests.security.providing import CLIENT, SECRET, Provider, a_provider
from tests.serving import free_port, started


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """A provider on another site: its host is `localhost`, that of the page `127.0.0.1`."""
    with a_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[str]:
    port = free_port()
    settings = {
        "COMMONBRAIN_JWT_ISSUER": provider.name,
        "COMMONBRAIN_JWT_AUDIENCE": "https://brain.test",
        "COMMONBRAIN_JWT_JWKS_URL": f"{provider.name}/keys",
        "COMMONBRAIN_OIDC_CLIENT_ID": CLIENT,
        "COMMONBRAIN_OIDC_CLIENT_SECRET": SECRET,
    }
    with ThreadPoolExecutor(1) as thread, ExitStack() as running:
        # The browser occupies the loop of this thread.
        store = tmp_path_factory.mktemp("server") / "brain.db"
        starting = started(store, port=port, is_open=False, **settings)
        thread.submit(running.enter_context, starting).result()
        yield f"http://127.0.0.1:{port}"


def note(faults: list[str], kind: str, text: str) -> None:
    # The provider of the tests has no icon.
    if kind in {"error", "warning"} and "404" not in text:
        faults.append(text)


@pytest.mark.requirement("ST-18")
@pytest.mark.parametrize("has_scripts", [True, False], ids=["scripts", "no scripts"])
def test_person_logs_in_at_a_provider_and_returns_to_the_page(
    chromium: Browser, server: str, *, has_scripts: bool
) -> None:
    context = chromium.new_context(java_script_enabled=has_scripts)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    faults: list[str] = []
    page.on("console", lambda message: note(faults, message.type, message.text))
    page.goto(f"{server}/browse?kind=fact")
    page.get_by_role("button", name="Log in with localhost").click()
    # Which sent the browser to a further origin and back first.
    page.get_by_role("button", name="Continue as Carla").click()

    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page).to_have_url(f"{server}/browse?kind=fact")
    expect(page.get_by_text("carla", exact=True)).to_be_visible()
    cookies = {one.get("name"): one.get("sameSite") for one in context.cookies(server)}
    assert "Lax" not in cookies.values()
    assert faults == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_login_page_is_accessible_and_has_no_horizontal_scrolling(
    chromium: Browser,
    server: str,
    request: pytest.FixtureRequest,
    *,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    size = ViewportSize(width=width, height=HEIGHT)
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{server}/login/callback?error=access_denied")
    assert serious_faults(page) == []
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    folder: Path | None = request.config.getoption("--pictures")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"login-{width}-{scheme}.png")
    context.close()
