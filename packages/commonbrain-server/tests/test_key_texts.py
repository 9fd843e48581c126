"""How keys and tokens of sessions are written: each is read back, and nothing else is read."""

import pytest
from commonbrain_server.security.key_texts import (
    KeyText,
    SessionToken,
    check_tenant_name,
    read_key,
    read_session_token,
)
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import InvalidInputError

TENANTS = st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?", fullmatch=True)


@given(
    tenant=TENANTS,
    prefix=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    secret=st.from_regex(r"[0-9a-f]{48}", fullmatch=True),
)
def test_key_is_read_as_it_was_written(tenant: str, prefix: str, secret: str) -> None:
    text = KeyText(tenant=check_tenant_name(tenant), prefix=prefix, secret=secret)

    assert read_key(str(text)) == text
    assert read_session_token(str(text)) is None


@given(tenant=TENANTS, secret=st.from_regex(r"[A-Za-z0-9_-]{43}", fullmatch=True))
def test_token_of_a_session_is_read_as_written_and_is_no_key(tenant: str, secret: str) -> None:
    text = SessionToken(tenant=check_tenant_name(tenant), secret=secret)

    assert read_session_token(str(text)) == text
    assert read_key(str(text)) is None
    assert secret not in repr(text)


@given(st.text(max_size=100))
def test_text_that_is_no_key_is_read_as_none(text: str) -> None:
    assert read_key(text) is None
    assert read_session_token(text) is None


def test_name_of_a_tenant_that_keys_cannot_contain_is_refused(subtests: pytest.Subtests) -> None:
    for name in ("", "-a", "a-", "_a", "a_", "A", "ä", "a" * 64, "a b", "a\n", "a.b"):
        with subtests.test(name=name), pytest.raises(InvalidInputError):
            check_tenant_name(name)
