"""`class Brain`: every public member documents itself, and loads its capability when used."""

import inspect
import subprocess
import sys
from typing import Any, cast

import pytest

from commonbrain.client import Brain

PUBLIC = [name for name in vars(Brain) if not name.startswith("_") and name not in Brain.__slots__]


def call_of(brain: Brain, name: str) -> Any:  # noqa: ANN401 a method, or the call of a capability
    """Return what a call of a member runs; None if the capability has methods alone."""
    member = vars(Brain)[name]
    if not isinstance(member, property):
        return member
    return vars(type(cast("object", getattr(brain, name)))).get("__call__")


def test_every_member_documents_itself_and_each_of_its_arguments(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for name in PUBLIC:
        with subtests.test(member=name):
            assert vars(Brain)[name].__doc__
            call = call_of(brain, name)
            if call is None:
                continue
            documented = inspect.getdoc(call) or ""
            assert documented
            parameters = list(inspect.signature(call).parameters)
            for one in parameters[1:] if len(parameters) > 2 else ():
                assert f"{one}:" in documented or name in {"get_several", "acting_as"}, one


def test_importing_the_class_loads_no_capability() -> None:
    program = "import sys, commonbrain.client; print(*[m for m in sys.modules if 'brain' in m])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(done.stdout.split()) == {
        "commonbrain",
        "commonbrain.client",
        "commonbrain.threads",
    }
