from pathlib import Path

import pytest

from commonbrain.extras import load_extra
from commonbrain.model.errors import InvalidInputError
from commonbrain.observability.factory import (
    DesktopNotifications,
    TelemetryOptions,
    make_telemetry,
    wants_spans,
)
from commonbrain.observability.interface import SILENT
from commonbrain.runtime.bootstrap import open_brain
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock
from tests.observability.reading import an_event

ABOUT = {"version": "1", "space": "words"}


@pytest.fixture(autouse=True)
def no_standard_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def test_telemetry_without_options_is_silent() -> None:
    assert make_telemetry("mcp", TelemetryOptions(), clock=FakeClock(), about=ABOUT) is SILENT


def test_spans_are_enabled_by_a_setting_or_the_standard_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not wants_spans(TelemetryOptions())
    assert wants_spans(TelemetryOptions(otlp_endpoint="http://127.0.0.1:4318"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert wants_spans(TelemetryOptions())
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not wants_spans(TelemetryOptions())


def test_missing_extra_is_named_with_its_install_command() -> None:
    with pytest.raises(InvalidInputError) as missing:
        load_extra("no_such_library.inside", extra="notifications")
    assert missing.value.code == "extra_missing"
    assert "pip install 'commonbrain[notifications]'" in missing.value.hint


def test_server_starts_without_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = TelemetryOptions(log=tmp_path / "file" / "log")
    assert make_telemetry("mcp", options, clock=FakeClock(), about=ABOUT) is SILENT


@pytest.mark.requirement("DO-12")
def test_server_has_a_log_and_metrics_and_a_command_has_none(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    with open_brain(path) as command:
        assert command.services.telemetry is SILENT
    with open_brain(path, server_name="serve") as server:
        server.services.telemetry.called(an_event(), http_status=200)
        assert b"commonbrain_calls_total" in server.services.telemetry.metrics()[0]
    assert (tmp_path / "state" / "log" / "serve.jsonl").exists()


def test_settings_are_read_from_a_folder_of_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commonbrain_embedder_api_key").write_text("hush\n")
    (tmp_path / "commonbrain_trace_days").write_text("7")
    monkeypatch.setenv("COMMONBRAIN_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("COMMONBRAIN_TRACE_RETENTION_DAYS", "8")
    settings = load_settings()
    assert settings.embedder_api_key
    assert settings.embedder_api_key.get_secret_value() == "hush"
    assert settings.trace_retention_days == 8


@pytest.mark.requirement("OB-05")
def test_notification_without_a_desktop_raises_nothing() -> None:
    notice = DesktopNotifications(FakeClock())
    notice.called(an_event(outcome="not_found"), http_status=404)
    notice.called(an_event(outcome="store_down"), http_status=503)
    notice.called(an_event(outcome="store_down"), http_status=503)
    notice.join()
