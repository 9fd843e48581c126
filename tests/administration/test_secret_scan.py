"""What was stored before a pattern was known is found by a scan, and erased by one call."""

import hashlib
import json
from dataclasses import dataclass, replace

import pytest

from commonbrain.client import Brain
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Role
from commonbrain.security import secrets
from commonbrain.security.credentials import NOUNS
from commonbrain.security.secret_values import SecretMatch
from commonbrain.security.secrets import PATTERNS_VERSION, SecretScanner
from commonbrain.storage.interface import Finding
from tests.asking import stored
from tests.secrets import SECRETS

_, GITHUB = SECRETS["github classic"]


@dataclass(frozen=True)
class BlindScanner(SecretScanner):
    """Finds no secret, as patterns did before they knew it."""

    def find(self, text: str) -> list[SecretMatch]:
        """Find nothing."""
        assert isinstance(text, str)
        return []


@pytest.fixture
def careless(brain: Brain) -> Brain:
    return Brain(replace(brain.services, secret_scanner=BlindScanner()), brain.caller)


def finding(brain: Brain, *, scans: bool = False) -> Finding:
    [one] = [one for one in brain.doctor(secrets=scans).findings if one.check == "secrets"]
    return one


@pytest.mark.requirement("ST-11")
def test_stored_secret_is_listed_without_its_text_and_erased_by_the_suggested_call(
    brain: Brain, careless: Brain
) -> None:
    half = len(GITHUB) // 2
    broken = f"{GITHUB[:half]}\n{GITHUB[half:]}"
    leaked = [
        stored(careless, f"The deploy uses {GITHUB} at night.", kind="fact"),
        stored(careless, f"The backup uses {broken} at noon.", kind="fact"),
        careless.message.send("bo", f"Take old_{GITHUB}_new then.").id,
    ]
    noted = stored(careless, "The build needs a login.", kind="fact")
    careless.revise.annotate(noted, f"It is {GITHUB}.")
    saved = careless.remember(
        [Draft(body="The mail needs a login.", attachment={"password": "hunter" + "2zebra"})]
    )
    stored(careless, "The kettle is blue.", kind="fact")
    fractions: list[float] = []

    diagnosis = brain.doctor(secrets=True, on_progress=fractions.append)

    scan = diagnosis.secrets
    assert scan is not None
    ids = [*leaked, noted, saved.items[0].id]
    assert {one.id for one in scan.memories} == set(ids)
    assert (scan.scanned, scan.count, scan.patterns) == (6, 5, PATTERNS_VERSION)
    assert fractions[-1] == 1.0
    assert GITHUB[:half] not in repr(diagnosis)
    assert GITHUB[half:] not in repr(diagnosis)
    assert "GitHub token in the body, line 1, column" in repr(scan.memories)
    assert scan.erase is not None
    named = [word for word in scan.erase.split() if word.startswith("mem_")]

    preview = brain.erase(named, reason="It held a secret.")
    assert preview.count == len(ids)
    brain.erase(named, reason="It held a secret.", confirm=preview.count)

    again = brain.doctor(secrets=True).secrets
    assert again is not None
    assert (again.memories, again.erase) == ((), None)


def test_doctor_advises_a_scan_until_the_current_patterns_were_scanned(brain: Brain) -> None:
    assert not finding(brain).hint
    stored(brain, "The kettle is blue.", kind="fact")
    assert "brain doctor --secrets" in finding(brain).hint

    assert not finding(brain, scans=True).hint
    assert not finding(brain).hint
    assert f"patterns {PATTERNS_VERSION}" in finding(brain).detail


def test_secrets_in_private_memories_of_others_are_only_counted_and_only_for_admins(
    brain: Brain, careless: Brain
) -> None:
    bo = careless.acting_as(agent="bo")
    stored(bo, f"My key is {GITHUB}.", kind="fact", scope="private")

    scan = brain.doctor(secrets=True).secrets
    writer = Brain(brain.services, replace(brain.caller, role=Role.WRITER))
    written = writer.doctor(secrets=True).secrets

    assert scan is not None
    assert written is not None
    assert (scan.memories, scan.hidden_count) == ((), 1)
    assert (written.memories, written.hidden_count) == ((), 0)


def test_version_of_the_patterns_is_raised_with_every_change_of_the_patterns() -> None:
    digest = hashlib.sha256(json.dumps([secrets.FORMATS, NOUNS]).encode()).hexdigest()[:16]
    # After a change, raise the version and put the new digest here.
    assert (PATTERNS_VERSION, digest) == (4, "a3e560c43a10de9a")
