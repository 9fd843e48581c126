"""Every evaluation by its name, one row each; `brain eval NAME` runs one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from commonbrain_models.calibration import read_pairs
from rich.console import Console

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.interface import Progress
from commonbrain_evals import (
    atomizer,
    cascade,
    contradictions,
    duplicates,
    headlines,
    kinds,
    notes,
    preferences,
    prompts,
    reflection,
    safety,
    secrets,
    timeline,
    times,
    truth,
)
from commonbrain_evals.labelled import show_labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluation on data that ships with the package."""

    run: Callable[[Progress], Any]
    """Return the report, a dataclass that can be written as JSON."""
    show: Callable[[Any], None]
    """Print the report for people."""


def _duplicates(on_progress: Progress) -> duplicates.DuplicatesReport:
    embedder = make_embedder(load_settings())
    return duplicates.evaluate(read_pairs(), embedder, on_progress=on_progress)


def _notes(on_progress: Progress) -> notes.NotesReport:
    embedder = make_embedder(load_settings())
    return notes.evaluate(notes.read_notes(), embedder, on_progress=on_progress)


def _prompts(on_progress: Progress) -> prompts.PromptReport:
    embedder = make_embedder(load_settings())
    return prompts.evaluate(*prompts.read_prompts(), embedder=embedder, on_progress=on_progress)


def _reflection(on_progress: Progress) -> reflection.ReflectionReport:
    embedder = make_embedder(load_settings())
    return reflection.evaluate(reflection.read_days(), embedder, on_progress=on_progress)


def _safety(on_progress: Progress) -> safety.SafetyReport:
    return safety.evaluate(make_embedder(load_settings()), on_progress=on_progress)


def _truth(on_progress: Progress) -> truth.TruthReport:
    embedder = make_embedder(load_settings())
    return truth.evaluate(truth.read_cases(), embedder, on_progress=on_progress)


def _timeline(on_progress: Progress) -> timeline.TimelineReport:
    embedder = make_embedder(load_settings())
    return timeline.evaluate(
        timeline.read_questions(), embedder, notes=timeline.read_notes(), on_progress=on_progress
    )


EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    "atomizer": Evaluation(
        run=lambda _: atomizer.evaluate(atomizer.read_sentences()),
        show=show_labelled,
    ),
    "cascade": Evaluation(
        run=lambda _: cascade.evaluate(),
        show=lambda report: Console().print(cascade.render_cascade(report), markup=False),
    ),
    "conflicts": Evaluation(
        run=lambda _: contradictions.evaluate(contradictions.read_statements()),
        show=show_labelled,
    ),
    "duplicates": Evaluation(
        run=_duplicates,
        show=duplicates.show_duplicates,
    ),
    "headlines": Evaluation(
        run=lambda _: headlines.evaluate(headlines.read_texts()),
        show=headlines.show_headlines,
    ),
    "kinds": Evaluation(
        run=lambda _: kinds.evaluate(kinds.read_texts()),
        show=kinds.show_kinds,
    ),
    "notes": Evaluation(
        run=_notes,
        show=notes.show_notes,
    ),
    "preferences": Evaluation(
        run=lambda _: preferences.evaluate(preferences.read_sentences()),
        show=show_labelled,
    ),
    "prompts": Evaluation(
        run=_prompts,
        show=prompts.show_prompts,
    ),
    "reflection": Evaluation(
        run=_reflection,
        show=reflection.show_reflection,
    ),
    "safety": Evaluation(
        run=_safety,
        show=lambda report: Console().print(
            "\n".join(safety.render_safety(report)), markup=False, highlight=False
        ),
    ),
    "secrets": Evaluation(
        run=lambda _: secrets.evaluate(),
        show=show_labelled,
    ),
    "timeline": Evaluation(
        run=_timeline,
        show=timeline.show_timeline,
    ),
    "times": Evaluation(
        run=lambda _: times.evaluate(times.read_questions()),
        show=show_labelled,
    ),
    "truth": Evaluation(
        run=_truth,
        show=truth.show_truth,
    ),
}
