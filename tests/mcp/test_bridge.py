"""A bridge reads the settings before they are loaded."""

from commonbrain.api.operation import Profile
from commonbrain.config import Settings
from commonbrain.mcp.bridge import PROFILES
from commonbrain.runtime.callers import FALSE_WORDS


def test_fast_path_reads_settings_as_the_settings_class_does() -> None:
    assert {"", *Profile} == PROFILES
    assert [word for word in FALSE_WORDS if Settings(mcp_shared=word).mcp_shared] == []  # type: ignore[arg-type]
