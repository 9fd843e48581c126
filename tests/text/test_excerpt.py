import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.text.segmentation import GAP, Sought, excerpt

TEXTS = st.text(min_size=1, max_size=2000) | st.lists(
    st.sampled_from(["The port is 8443. ", "Tea was served!\n", "x" * 300, "港口已关闭。", " \n\n"])
).map("".join)
TERMS = st.lists(st.sampled_from(["port", "tea", "served", "港口"]), max_size=3)


@given(TEXTS, TERMS, st.integers(0, 2000))
@example("Tea was served!\nPORT。\nTea was served!", ["port"], 12)
def test_excerpt_contains_only_words_of_its_text(text: str, terms: list[str], chars: int) -> None:
    reply = excerpt(text.replace(GAP, ""), Sought(terms), chars=chars)
    assert len(reply) <= chars
    place = 0
    for part in reply.split(GAP):
        place = text.replace(GAP, "").index(part.strip(" "), place)


def test_excerpt_is_the_matching_sentence_or_the_opening(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[list[str], str]] = [
        (["ports"], "[...] The port is 8443. [...]"),
        (["door"], "[...] The door is red."),
        ([], "Tea was served. [...]"),
        (["nothing"], "Tea was served. [...]"),
    ]
    text = "Tea was served. Nobody came by today. The port is 8443. It rained. The door is red."
    for terms, output in cases:
        with subtests.test(terms=terms, output=output):
            assert excerpt(text, Sought(terms), chars=30) == output


@pytest.mark.requirement("RT-42")
@pytest.mark.parametrize(
    ("text", "term", "output"),
    [
        ("先写文档。然后用React写前端。最后测试。", "react", "[...] 然后用React写前端。 [...]"),
        ("先写文档。然后用React写前端。最后测试。", "前端", "[...] 然后用React写前端。 [...]"),
        ("เริ่มก่อน\nกู้ข้อมูลด้วยมือ\nจบแล้ว", "กข", "[...] กู้ข้อมูลด้วยมือ [...]"),
        ("Да. Дай Redisй. Да.", "redis", "[...] Дай Redisй. [...]"),
        ("Да. Жим. Дай им. Да.", "им", "[...] Дай им. [...]"),
        (f"{'前' * 150}\uff0c{'后端' * 75}", "后端", f"[...] {'后端' * 75}"),
    ],
)
def test_excerpt_of_a_text_in_another_script_has_the_word(
    text: str, term: str, output: str
) -> None:
    assert excerpt(text, Sought([term]), chars=len(output) + 7) == output


def test_rare_word_outweighs_a_word_of_every_sentence() -> None:
    text = "The shop is old. The shop is big. The shop has a cat. The shop is far."
    assert "cat" in excerpt(text, Sought(["shop", "cat"]), chars=32)


def test_text_without_breaks_has_no_excerpt() -> None:
    assert excerpt("x" * 5000, Sought(["x"]), chars=400) == ""


def test_long_run_of_blanks_is_read_in_linear_time() -> None:
    # Tried anew at every blank, this would take minutes.
    text = f"It begins.{' ' * 200_000}The pump is in Visby. {chr(9) * 200_000}x"

    assert "The pump is in Visby." in excerpt(text, Sought(["pump"]), chars=400)


def test_excerpt_matches_words_in_any_case() -> None:
    text = f"{'İ' * 300}. Nothing is here. The PUMP is in Visby. Nor is anything there."

    assert "The PUMP is in Visby." in excerpt(text, Sought(["pump"]), chars=40)


def test_excerpt_shows_a_colon_with_its_continuation() -> None:
    text = f"{'Filler comes first. ' * 20}Never do this in production: restore with force."

    result = excerpt(text, Sought(["restore"]), chars=80)
    assert result.endswith("Never do this in production: restore with force.")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("\u0939\u0928\u0926", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("\u0e01\u0e19\u0e02", "\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27"),
        ("\u0645\u062d\u0645\u062f", "\u0645\u064f\u062d\u064e\u0645\u064e\u0651\u062f"),
        ("port", "\uff30\uff2f\uff32\uff34"),
    ],
)
def test_words_are_found_in_texts_with_marks_and_full_width_letters(term: str, text: str) -> None:
    assert Sought([term]).stems_in(f"x {text}")
