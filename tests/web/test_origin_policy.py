"""Which requests of browsers are served: one rule for the page, REST and MCP."""

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.web.request_guard import OriginPolicy

PORT = 8377
HOSTS = ("127.0.0.1", "localhost", "[::1]")
API = OriginPolicy(hosts=frozenset({"127.0.0.1", "localhost", "::1"}))
PAGE = OriginPolicy(hosts=API.hosts, takes_links=True)
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
DESTINATIONS = ("document", "empty", "iframe", "image", "script", "style", "object", "embed", "")


def code(policy: OriginPolicy, method: str, **headers: str) -> str | None:
    """Return the code of the refusal of a request, None if it is served."""
    raw = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in ({"host": f"127.0.0.1:{PORT}"} | headers).items()
        if value
    ]
    refusal = policy.refusal({"type": "http", "method": method, "headers": raw})
    return refusal[0].code if refusal else None


@given(
    policy=st.sampled_from([API, PAGE]),
    method=st.sampled_from(METHODS),
    scheme=st.sampled_from(["http", "https"]),
    host=st.sampled_from([*HOSTS, "evil.example", "127.0.0.1.evil.example"]),
    port=st.one_of(st.none(), st.integers(1, 65_535)),
    of=st.sampled_from(HOSTS),
)
def test_only_the_origin_of_the_requested_host_and_port_may_call(
    policy: OriginPolicy, method: str, scheme: str, host: str, port: int | None, of: str
) -> None:
    origin = f"{scheme}://{host}" if port is None else f"{scheme}://{host}:{port}"
    is_own = (host, port) == (of, PORT)
    assert (code(policy, method, host=f"{of}:{PORT}", origin=origin) is None) is is_own
    # A browser does not say which port a page of the same site has.
    refusal = code(policy, method, host=f"{of}:{PORT}", sec_fetch_site="same-site")
    assert refusal == "origin_denied"


@given(
    site=st.sampled_from(["same-site", "cross-site", "something-new"]),
    method=st.sampled_from(METHODS),
    dest=st.sampled_from(DESTINATIONS),
)
def test_foreign_page_can_only_link_to_the_page(site: str, method: str, dest: str) -> None:
    request = {"sec_fetch_site": site, "sec_fetch_dest": dest}
    assert code(API, method, **request) == "origin_denied"
    is_link = method in {"GET", "HEAD"} and dest == "document"
    assert (code(PAGE, method, **request) is None) is is_link
    assert code(PAGE, method, origin="null", **request) == "origin_denied"


@given(policy=st.sampled_from([API, PAGE]), method=st.sampled_from(METHODS))
def test_programs_the_address_bar_and_the_page_itself_are_served(
    policy: OriginPolicy, method: str
) -> None:
    assert code(policy, method) is None
    assert code(policy, method, sec_fetch_site="none", sec_fetch_dest="document") is None
    own = {"origin": f"http://127.0.0.1:{PORT}", "sec_fetch_site": "same-origin"}
    assert code(policy, method, **own) is None
    # The port of this machine from which SSH forwards to that of the server.
    forwarded = {"host": "localhost:9000", "origin": "http://localhost:9000"}
    assert code(policy, method, **forwarded, sec_fetch_site="same-origin") is None


@given(method=st.sampled_from(METHODS), host=st.sampled_from(["brain.example", "127.0.0.1:8377"]))
def test_public_url_of_a_proxy_is_the_own_origin(method: str, host: str) -> None:
    policy = OriginPolicy(hosts=API.hosts | {"brain.example"}, url="https://brain.example")
    own = {"host": host, "sec_fetch_site": "same-origin"}
    assert code(policy, method, origin="https://brain.example", **own) is None
    for origin in ("https://brain.example:8443", "https://other.example"):
        assert code(policy, method, origin=origin, **own) == "origin_denied"
