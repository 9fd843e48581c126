"""Brains as a server has them: their callers are limited and audited."""

from pathlib import Path
from typing import Any

from commonbrain_server.guard import guard_services
from commonbrain_server.security.authentication import Authenticator, Issuer
from commonbrain_server.security.logins import make_authenticator

from commonbrain.client import Brain
from commonbrain.testing.builders import a_brain


def guarded(brain: Brain) -> Brain:
    """Return a brain of the same store with a guard; close this one."""
    return Brain(guard_services(brain.services), brain.caller)


def a_guarded_brain(path: Path, **options: Any) -> Brain:  # noqa: ANN401 those of `a_brain`
    """Open a real store as a server does."""
    return guarded(a_brain(path, **options))


def an_access(brain: Brain, issuer: Issuer | None = None) -> Authenticator:
    """Create the authenticator of a guarded brain."""
    return make_authenticator(brain.services, issuer)
