"""Parameters of recall, decay and writing, as settings and a tenant's policy set them."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonbrain
from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import is_archived, is_dormant, strength
from commonbrain.model.parameters import (
    BOUNDS,
    DEFAULTS,
    PARAMETERS,
    POLICY_PARAMETERS,
    Parameters,
    change_parameters,
)
from commonbrain.model.scope import OnSecret, Trust
from commonbrain.testing.builders import NOON, WordHashEmbedder, a_brain, a_memory
from tests.asking import stored

SECRET = "The key is ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.requirement("DO-21")
def test_every_parameter_has_a_setting_with_its_default_and_bounds() -> None:
    schema = Settings.model_json_schema()["properties"]
    assert set(PARAMETERS) <= set(schema)
    assert Settings().parameters == DEFAULTS
    for name, (low, high) in BOUNDS.items():
        for beyond in (low - 0.5, high + 1):
            with pytest.raises(ValueError, match=name):
                Settings.model_validate({name: beyond})


@pytest.mark.requirement("DO-21")
def test_parameters_out_of_range_are_refused(subtests: pytest.Subtests) -> None:
    for given_ in (
        {"half_life_days": {Kind.RULE: 7}},
        {"half_life_days": {Kind.FACT: 0}},
        {"archive_days": {Kind.INCIDENT: -1}},
        {"recall_items": 0},
    ):
        with subtests.test(given_=given_), pytest.raises(InvalidInputError):
            Parameters(**given_)  # pyright: ignore[reportArgumentType]


@given(days=st.floats(0.5, 1000), factor=st.floats(0.1, 10))
def test_strength_halves_at_the_half_life_that_is_set(days: float, factor: float) -> None:
    set_ = Parameters(half_life_days={Kind.FACT: days})
    memory = a_memory(1, "The cache lives in Redis")
    later = NOON + timedelta(days=days * factor)
    assert strength(memory, later, parameters=set_) == pytest.approx(2.0**-factor)
    other = a_memory(2, "Deployed the cache", kind=Kind.EVENT)
    assert strength(other, later, parameters=set_) == strength(other, later)


def test_dormancy_and_archiving_follow_the_settings() -> None:
    fact, incident = a_memory(1, "x is y"), a_memory(2, "x broke", kind=Kind.INCIDENT)
    later = NOON + timedelta(days=10)
    assert not is_dormant(fact, later)
    assert is_dormant(fact, later, parameters=Parameters(dormant_below=0.5))
    assert not is_archived(incident, later)
    assert is_archived(incident, later, parameters=Parameters(archive_days={Kind.INCIDENT: 9}))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["trust_min", "salience_min", "recall_items"]),
            st.integers(0, 1),
        ),
        max_size=6,
    )
)
def test_last_change_of_a_parameter_wins(changes: list[tuple[str, int]]) -> None:
    parameters: tuple[str, ...] = ()
    for name, value in changes:
        parameters = change_parameters(parameters, [f"{name}={value or ''}"])
    last = {name: value for name, value in changes if value} | {
        name: 0 for name, value in dict(changes).items() if not value
    }
    expected = {name: value for name, value in dict(changes).items() if value}
    assert (
        {one.split("=")[0] for one in parameters} == set(expected) == {n for n in last if last[n]}
    )
    assert Parameters().under(parameters) == Parameters(**expected)  # pyright: ignore[reportArgumentType]


def test_unknown_parameter_of_a_newer_version_is_ignored() -> None:
    assert DEFAULTS.under(["of_the_future=1", "trust_min=0.6"]).trust_min == 0.6


@pytest.mark.requirement("DO-21")
def test_settings_reach_recall(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMONBRAIN_RECALL_ITEMS", "2")
    monkeypatch.setenv("COMMONBRAIN_TRUST_MIN", "0.3")
    monkeypatch.setenv("COMMONBRAIN_HALF_LIFE_DAYS", '{"fact": 14}')
    with commonbrain.open(path) as brain:
        for port in (5432, 6379, 8080):
            stored(brain, f"A service of the shop listens on port {port}", kind="event")
        web = stored(brain, "The shop has a red door", kind="fact", trust=Trust.UNTRUSTED_WEB)
        assert len(brain.recall("service of the shop").items) == 2
        assert len(brain.recall("service of the shop", max_items=3).items) == 3
        assert web in {one.id for one in brain.recall("door").items}
        assert brain.services.parameters.half_life(Kind.FACT) == timedelta(days=14)


def test_skills_follow_the_parameters(path: Path) -> None:
    set_ = Parameters(skills_max=1)
    with closing(a_brain(path, parameters=set_)) as brain:
        for number in (1, 2, 3):
            stored(
                brain,
                f"Restart worker {number} with systemctl",
                kind="rule",
                skill={"name": f"restart-{number}", "keywords": ["restart"]},
                distinct_because="another worker",
            )
        assert len([one for one in brain.recall("restart").items if "skill" in str(one.why)]) == 1


def test_confidence_of_unsourced_facts_and_low_salience_follow_the_parameters(path: Path) -> None:
    set_ = Parameters(unsourced_confidence_max=0.4, salience_min=0.95)
    with closing(a_brain(path, parameters=set_)) as brain:
        unsourced = brain.get(stored(brain, "The API is on port 80", kind="fact"), views=["policy"])
        sourced = brain.get(
            stored(brain, "The shop is on port 81", kind="fact", source_ref="compose.yml")
        )
        assert unsourced.confidence == 0.4 < sourced.confidence
        assert unsourced.policy is not None
        assert unsourced.policy.state == "archived"


@pytest.mark.requirement("WP-53")
def test_policy_may_cap_the_confidence_that_an_author_gives_an_unsourced_fact(path: Path) -> None:
    def confidence_of(
        brain: Brain, number: int, kind: str = "fact", source: str | None = None
    ) -> float:
        text = f"Shop {number} is on port 8{number}"
        id_ = stored(brain, text, kind=kind, source_ref=source, confidence=0.95)
        return brain.get(id_).confidence

    with closing(a_brain(path)) as brain:
        assert confidence_of(brain, 1) == 0.95, "as given, without a policy"
    policy = Parameters().under(["given_confidence_max=0.7"])
    with closing(a_brain(path, parameters=policy)) as brain:
        assert confidence_of(brain, 2) == 0.7
        assert confidence_of(brain, 3, source="compose.yml") == 0.95
        assert confidence_of(brain, 4, kind="event") == 0.95, "what happened needs no source"


NEAR = (
    "Review every pull request before merging it",
    "Before merging it, a colleague reads every pull request",
)


def test_threshold_of_zero_is_not_treated_as_unset() -> None:
    space = WordHashEmbedder.space.under(Parameters(similar_threshold=0))
    assert space.similar_threshold == 0


def test_kinds_and_policies_refuse_unknown_names() -> None:
    assert {*POLICY_PARAMETERS} - {"secrets", "share_discussions"} <= set(BOUNDS)
    assert OnSecret(DEFAULTS.secrets) is OnSecret.REJECT
    assert all(DEFAULTS.half_life(kind) == KINDS[kind].half_life for kind in Kind)


def test_invalid_half_life_is_refused_with_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for written, error in (
        ("fact", "not valid JSON.*half_life_days"),
        ('{"fct": 3}', "COMMONBRAIN_HALF_LIFE_DAYS of fct is 'fct'"),
        ('{"fact": "long"}', "COMMONBRAIN_HALF_LIFE_DAYS of fact is 'long'"),
        ('{"rule": 3}', "A rule never fades"),
    ):
        with subtests.test(written=written, error=error):
            monkeypatch.setenv("COMMONBRAIN_HALF_LIFE_DAYS", written)
            with pytest.raises(InvalidInputError, match=error):
                commonbrain.open(path)
