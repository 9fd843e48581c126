import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.limits import SALIENCE_MIN
from commonbrain.text.salience import salience

KIND = st.sampled_from(Kind)
COUNT = st.integers(0, 10**9)
SAYS_NOTHING = ("ok", "asdf", "asdf qwer", "thanks!", "lol", "yes", "\U0001f44d\U0001f44d", "xxxx")


@pytest.mark.requirement("WP-31")
@pytest.mark.parametrize("text", SAYS_NOTHING)
@pytest.mark.parametrize("kind", Kind)
def test_text_that_says_nothing_is_below_the_lowest_salience(kind: Kind, text: str) -> None:
    assert salience(kind, text) < SALIENCE_MIN


@pytest.mark.requirement("WP-31")
@pytest.mark.parametrize(
    "text",
    [
        *("Postgres", "42", "The sofa is green", "It costs twice", "thanks to Ben it builds again"),
        *("Der Server steht in Köln", "Le serveur est à Lyon", "El servidor está en Cádiz"),
        *(
            "Сервер стоит в Осло",
            "データベースは大阪にあります",
            "الخادم في القاهرة",
            "서버는 서울에 있다",
        ),
    ],
)
@pytest.mark.parametrize("kind", Kind)
def test_text_that_says_something_in_any_language_is_not(kind: Kind, text: str) -> None:
    assert salience(kind, text) >= SALIENCE_MIN


@pytest.mark.requirement("WP-30")
@pytest.mark.parametrize(
    "text",
    [
        "We promised Acme the export by Friday",
        "Never log the card numbers of customers",
        "The payment webhook still fails for Acme",
        "The nightly import for Acme crashed again",
        "Bitte immer auf Deutsch antworten",
    ],
)
@pytest.mark.parametrize("kind", Kind)
def test_constraint_commitment_and_open_point_are_above_a_plain_statement(
    kind: Kind, text: str
) -> None:
    plain = salience(kind, "Acme has three offices in the north of Ghent")
    assert salience(kind, text) > plain


@pytest.mark.requirement("WP-30")
def test_full_plain_statement_has_the_salience_of_its_kind(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            text = "The archive in Ghent holds 4812 invoices, letters and contracts"
            assert salience(kind, text) == KINDS[kind].salience


@pytest.mark.requirement("RT-42")
@pytest.mark.parametrize(
    "text", ["图形验证码只在连续输错五次密码之后出现", "ตั้งเวลาหมดอายุของรหัสผ่านไว้สามสิบวันนับจากวันแรก"]
)
def test_statement_without_blanks_has_the_salience_of_its_kind(text: str) -> None:
    assert salience(Kind.FACT, f"{text}\uff0c4812 ABC") == KINDS[Kind.FACT].salience


@pytest.mark.requirement("WP-30")
def test_deadline_and_names_raise_salience() -> None:
    assert salience(Kind.TASK, "Call Ben", due=True) > salience(Kind.TASK, "Call Ben")
    assert salience(Kind.FACT, "Ben knows Anna", entities=2) == pytest.approx(
        salience(Kind.FACT, "Ben knows Anna") + 0.02
    )


@given(KIND, st.text(), COUNT, COUNT)
def test_salience_is_a_fraction_that_additional_signals_never_lower(
    kind: Kind, text: str, entities: int, more: int
) -> None:
    before = salience(kind, text, entities=entities)
    assert 0 < before <= 1
    assert salience(kind, text, due=True, entities=entities) >= before
    assert salience(kind, text, entities=entities + more) >= before
    assert salience(kind, f"{text} urgent", entities=entities) >= before


@pytest.mark.parametrize("text", ["Everything is down", "It is IEEE", "SSSD", "Port 8000"])
def test_short_statement_says_something(text: str) -> None:
    assert salience(Kind.FACT, text) >= SALIENCE_MIN
