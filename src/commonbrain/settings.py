"""Every setting once: its name, unit, default, bounds and environment variable."""

from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from commonbrain.domain.limits import LOCK_WAIT_S


def _default_store() -> Path:
    return user_data_path("commonbrain", appauthor=False) / "brain.db"


class Settings(BaseSettings):
    """Read once at start; an argument beats the environment, the environment the default."""

    model_config = SettingsConfigDict(env_prefix="COMMONBRAIN_", frozen=True, extra="ignore")

    store: Path = Field(default_factory=_default_store, description="The file memories live in.")
    agent: str | None = Field(
        default=None,
        max_length=128,
        description="Who acts; doors have their own default.",
    )
    session: str | None = Field(default=None, max_length=128, description="Which session acts.")
    project: str | None = Field(
        default=None,
        max_length=128,
        description="Where new memories belong unless they say.",
    )
    embedder: str = Field(default="minilm", description="Which embedding model to use.")
    embedder_threads: int = Field(
        default=1, ge=1, le=64, description="Processor cores one embedding may use."
    )
    durability: Literal["full", "normal"] = Field(
        default="full",
        description=(
            "full: an acknowledged write is on disk; normal: the last ones may be lost when the "
            "power fails, never when a process dies."
        ),
    )
    secrets: Literal["reject", "redact"] = Field(
        default="reject",
        description="reject: a text that holds a secret is refused; redact: it is stored without.",
    )
    lock_wait_s: float = Field(
        default=LOCK_WAIT_S,
        gt=0,
        le=600,
        description="Seconds a writer waits for the others.",
    )
