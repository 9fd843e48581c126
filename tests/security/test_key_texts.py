"""How keys are written: what is one is read back, what is none is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.agents import KeyText, check_tenant_name, read_key
from commonbrain.model.errors import InvalidInputError


@given(
    tenant=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True),
    prefix=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    secret=st.from_regex(r"[0-9a-f]{48}", fullmatch=True),
)
def test_a_key_is_read_back_as_it_was_written(tenant: str, prefix: str, secret: str) -> None:
    text = KeyText(tenant=check_tenant_name(tenant), prefix=prefix, secret=secret)

    assert read_key(str(text)) == text


@given(st.text(max_size=100))
def test_what_is_no_key_is_read_as_none(text: str) -> None:
    assert read_key(text) is None


@pytest.mark.parametrize("name", ["", "-a", "a-", "a_b", "A", "ä", "a" * 64, "a b", "a\n", "a.b"])
def test_a_tenant_has_a_name_that_keys_can_hold(name: str) -> None:
    with pytest.raises(InvalidInputError):
        check_tenant_name(name)
