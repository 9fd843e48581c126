"""The duplicate thresholds as curves: what each would be worth, and where those in use stand."""

from commonbrain_evals.duplicates import Report
from commonbrain_evals.retrieval.plotting import lines


def curves(report: Report) -> str:
    """Draw precision and recall over the threshold as SVG."""
    steps = report.steps
    series = {
        "duplicate: precision": [one.duplicate.precision for one in steps],
        "duplicate: expected precision": [one.expected_precision for one in steps],
        "duplicate: recall": [one.duplicate.recall for one in steps],
        "similar: precision": [one.similar.precision for one in steps],
        "similar: recall": [one.similar.recall for one in steps],
    }
    marks = {
        "duplicate_threshold": report.configured_duplicate_threshold,
        "similar_threshold": report.configured_similar_threshold,
    }
    return lines([one.threshold for one in steps], series, across="cosine", marks=marks)
