from tests.conftest import command, embedder

__all__ = ["command", "embedder"]
