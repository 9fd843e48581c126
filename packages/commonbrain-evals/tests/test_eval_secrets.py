import pytest
from commonbrain_evals.labelled import LabelledReport, read_rows
from commonbrain_evals.text_rules import SECRETS_FILE, TEXT_RULES, SecretText
from commonbrain_models.calibration import CalibrationSplit


@pytest.fixture(scope="module")
def report() -> LabelledReport:
    return TEXT_RULES["secrets"].evaluate()


def test_texts_with_and_without_a_credential_are_unique_and_of_five_languages() -> None:
    rows = read_rows(SecretText, SECRETS_FILE)
    assert len({row.text for row in rows}) == len(rows) == 550
    assert {row.language for row in rows} == {"en", "de", "es", "fr", "zh"}
    assert all(row.secret in row.text for row in rows if row.secret is not None)


@pytest.mark.requirement("ST-11")
def test_credentials_in_sentences_are_refused_and_harmless_texts_are_not(
    report: LabelledReport,
) -> None:
    for half in report.halves:
        assert half.rows >= 4000
        assert half.checked.agreement.precision == 1
    seen, unseen = (half.checked.agreement.recall for half in report.halves)
    assert seen >= 0.95
    assert unseen >= 0.65


def test_failures_of_the_half_check_are_not_listed(report: LabelledReport) -> None:
    assert {failure.half for failure in report.failures} <= {CalibrationSplit.CALIBRATE}


def test_redaction_leaves_no_part_of_a_credential_that_was_found(report: LabelledReport) -> None:
    assert "redact 0 values" in report.data
