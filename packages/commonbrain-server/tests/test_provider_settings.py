"""Settings of the login at a provider: which of them are incomplete, and what is missing."""

import re
from collections.abc import Iterator

import pytest
from commonbrain_server.http.server import prepare
from commonbrain_server.security.logins import make_page_sessions, make_provider_login
from commonbrain_server.settings import ServerSettings, TokenSettings
from provider_logins import URL, settings_of
from pydantic import SecretStr

from commonbrain.client import Brain
from commonbrain.config import EnvironmentSettings, Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.settings_loading import load
from tests.guarded import an_access
from tests.security.providing import CLIENT, Provider, a_provider


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with a_provider() as provider:
        yield provider


def test_incomplete_settings_are_refused(
    brain: Brain, provider: Provider, subtests: pytest.Subtests
) -> None:
    sessions = make_page_sessions(brain, an_access(brain), settings=ServerSettings())
    cases: tuple[tuple[dict[str, object], str], ...] = (
        (
            {"jwt_issuer": None, "jwt_audience": None, "jwt_jwks_url": None},
            "COMMONBRAIN_JWT_ISSUER",
        ),
        ({"jwt_jwks_url": None}, "COMMONBRAIN_JWT_JWKS_URL"),
        ({"jwt_issuer": "http://issuer.example"}, "COMMONBRAIN_JWT_ISSUER"),
    )
    for changes, named in cases:
        with subtests.test(changes=changes):
            settings = settings_of(provider, **changes)
            with pytest.raises(InvalidInputError) as error:
                make_provider_login(brain, sessions, url=URL, settings=settings)
            assert named in str(error.value)


def test_server_does_not_start_with_a_client_of_no_issuer(
    monkeypatch: pytest.MonkeyPatch, path: object
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STORE", str(path))
    monkeypatch.setenv("COMMONBRAIN_OIDC_CLIENT_ID", CLIENT)
    with pytest.raises(InvalidInputError, match="COMMONBRAIN_OIDC_CLIENT_ID"):
        prepare(ServerSettings())


@pytest.mark.parametrize("model", [TokenSettings, ServerSettings])
def test_defaults_of_settings_are_valid_unchecked(model: type[EnvironmentSettings]) -> None:
    assert model.model_construct() == model()


_ADDRESS = re.compile("url|endpoint|jwt_(?:audience|issuer)")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (model, name)
        for model in (Settings, TokenSettings, ServerSettings)
        for name, field in model.model_fields.items()
        if field.annotation == SecretStr | None or _ADDRESS.search(name)
    ],
)
def test_refusal_of_a_setting_does_not_contain_its_secret(
    model: type[EnvironmentSettings], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = f"https://ann:s3cret@idp.example/ \x07{'x' * 3000}"
    monkeypatch.setenv(f"{model.prefix}{name.upper()}", value)
    with pytest.raises(InvalidInputError, match=f"{model.prefix}{name.upper()}") as refusal:
        load(model)
    assert "s3cret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
