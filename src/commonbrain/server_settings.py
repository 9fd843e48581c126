"""How a shared server listens and what it takes on: each setting once, as in `settings`."""

from pydantic import Field, IPvAnyNetwork
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServerSettings(BaseSettings):
    """How the shared server listens, and how much it takes on; its workers read the same."""

    model_config = SettingsConfigDict(env_prefix="COMMONBRAIN_SERVE_", frozen=True, extra="ignore")

    host: str = Field(default="127.0.0.1", max_length=253, description="The address to listen at.")
    port: int = Field(default=8377, ge=1, le=65_535, description="The port to listen at.")
    workers: int = Field(default=1, ge=1, le=64, description="Processes that answer.")
    open: bool = Field(
        default=False,
        description="Take every call from this machine for its user's, without a credential.",
    )
    url: str | None = Field(
        default=None,
        max_length=2000,
        pattern=r"^https?://[^/\s]+(/[^\s]*[^/\s])?$",
        description="Under which URL callers know the server, where a proxy stands before it.",
    )
    allow_hosts: list[str] = Field(
        default=[],
        max_length=100,
        description="Further names that requests may be meant for, as a JSON list.",
    )
    proxies: list[IPvAnyNetwork] = Field(
        default=[],
        max_length=100,
        description="Addresses or networks of proxies whose X-Forwarded-For tells who calls, as a "
        "JSON list.",
    )
    body_bytes_max: int = Field(
        default=1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="The largest request."
    )
    request_s: float = Field(
        default=30, gt=0, le=600, description="Seconds that a call may take, its wait counted."
    )
    calls_at_once: int = Field(
        default=16, ge=1, le=256, description="Calls that one process works on; the rest wait."
    )
    connections_max: int = Field(
        default=1000, ge=1, le=100_000, description="Connections of one process; more are refused."
    )
    drain_s: int = Field(
        default=30, ge=0, le=600, description="Seconds that calls under way have when it stops."
    )
