"""Action items: tasks and rules that must be acknowledged before anything else is written."""

from enum import StrEnum


class Decision(StrEnum):
    """What an agent says of an action item."""

    WILL_EXECUTE = "will_execute"
    ALREADY_DONE = "already_done"
    """Of tasks only, with a reason: a rule is never done."""
    NOT_RELEVANT = "not_relevant"
    """With a reason."""
    DEFERRED = "deferred"
    """Until a time."""
