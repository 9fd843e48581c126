from tests.doors.conftest import command, embedder

__all__ = ["command", "embedder"]
