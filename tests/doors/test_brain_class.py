"""`class Brain`: every public method documents itself, and loads its capability when called."""

import inspect
import subprocess
import sys

import pytest

from commonbrain.client import Brain

PUBLIC = [name for name in vars(Brain) if not name.startswith("_") and name not in Brain.__slots__]


def test_every_method_documents_itself_and_each_of_its_arguments(
    subtests: pytest.Subtests,
) -> None:
    for name in PUBLIC:
        with subtests.test(method=name):
            member = vars(Brain)[name]
            if isinstance(member, property):
                assert member.__doc__
                continue
            documented = inspect.getdoc(member) or ""
            assert documented
            parameters = list(inspect.signature(member).parameters)
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
        "commonbrain.model",
        "commonbrain.model.limits",
        "commonbrain.threads",
    }
