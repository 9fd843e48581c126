from tests.doors.conftest import command

__all__ = ["command"]
