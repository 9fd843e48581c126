"""The threshold of similar texts as curves: what each is worth, and the one in use."""

from commonbrain_evals.duplicates import Report
from commonbrain_evals.retrieval.plots import lines


def curves(report: Report) -> str:
    """Draw precision and recall over the threshold as SVG."""
    steps = report.steps
    series = {
        "similar: precision": [one.similar.precision for one in steps],
        "similar: recall": [one.similar.recall for one in steps],
    }
    marks = {"similar_threshold": report.configured_similar_threshold}
    return lines([one.threshold for one in steps], series, across="cosine", marks=marks)
