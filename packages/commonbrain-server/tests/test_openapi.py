"""What the description promises is what is answered, whatever is asked: by examples at random."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

from commonbrain.testing.builders import a_brain
from tests.serving import an_app, listening

EXAMPLES: Final = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "2"))
"""For each route and mode; a longer run asks for more."""
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# What fits the schema may still be refused, by the gate or because nothing has that id; a number
# may be written as text, as the command line does.
CHECKS: Final[Any] = import_module("schemathesis.specs.openapi.checks")
LEFT_OUT: Final = [CHECKS.positive_data_acceptance, CHECKS.negative_data_rejection]
SLOW: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
KEY: Final = {"Authorization": "Bearer key-of-ada"}


@pytest.mark.requirement("DO-09")
# Hypothesis takes the random numbers that the server draws meanwhile, in other threads, for those
# of the strategy.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
def test_responses_to_generated_requests_match_the_openapi_description(
    path: Path, subtests: pytest.Subtests
) -> None:
    few = settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*SLOW],
    )
    with listening(an_app(a_brain(path))) as url:
        described: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
        # Nothing can be wrong with a call that takes nothing.
        for operation in described.exclude(path_regex="^/(healthz|readyz)$").get_all_operations():
            route = operation.ok()
            for mode in MODES:

                @few
                @given(case=route.as_strategy(generation_mode=mode))
                def ask(case: Any) -> None:  # noqa: ANN401 it is generic
                    case.call_and_validate(headers=KEY, excluded_checks=LEFT_OUT)

                with subtests.test(route=route.label, mode=mode.value):
                    ask()
