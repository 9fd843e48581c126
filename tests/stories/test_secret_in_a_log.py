"""A secret pasted in a log is reported and not stored; the log without it is stored."""

from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from tests.asking import bodies
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["postgres"]
LOG = f"""Host seven is the one that deploys the shop.

12:01 INFO starting worker 7
12:02 INFO connecting to {TEXT}
12:03 ERROR the server closed the connection

A restart of the pool takes about one minute."""


@pytest.mark.requirement("ST-11")
def test_secret_pasted_in_a_log_is_refused_and_never_stored(brain: Brain, path: Path) -> None:
    # An agent pastes what it saw. The passage with the secret is refused, the others are kept.
    before, log, after = brain.remember(LOG).items
    assert [before.status, log.status, after.status] == [
        *(ItemStatus.STORED, ItemStatus.REJECTED, ItemStatus.STORED),
    ]

    # It is told what and where, so that it can mend the text, and never the value.
    assert log.code == "secret_detected"
    assert "password in an address in the body, line 2" in (log.reason or "")
    assert SECRET not in str(log)

    # It mends the text and sends all of it again: what is stored already stays as it is.
    again = brain.remember(LOG.replace(SECRET, "<password>")).items
    assert [one.status for one in again] == [
        ItemStatus.EXISTS,
        ItemStatus.STORED,
        ItemStatus.EXISTS,
    ]
    assert len(bodies(brain, "connecting to postgresql")) >= 1

    # Somebody asks with the secret in the question; the trace of it holds none either.
    brain.recall(f"who uses {TEXT}")
    brain.services.journal.flush()
    brain.close()
    everything = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    assert SECRET.encode() not in everything
