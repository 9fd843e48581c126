"""Every evaluation by its name, one row each; `brain eval NAME` runs one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from commonbrain.retrieval.calibration import read_pairs
from commonbrain.runtime.bootstrap import make_embedder
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
    tables,
    timeline,
    times,
    truth,
)
from commonbrain_evals.labelled import show_labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One thing that is measured, on data that ships with the package."""

    purpose: str
    run: Callable[[Progress], Any]
    """Measure, and give a report: a dataclass that can be written as JSON."""
    show: Callable[[Any], None]
    """Print its report for people."""


def _duplicates(on_progress: Progress) -> duplicates.Report:
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
        purpose="Whether causes are told from effects, and from what only looks like one.",
        run=lambda _: atomizer.evaluate(atomizer.read_sentences()),
        show=show_labelled,
    ),
    "cascade": Evaluation(
        purpose="Whether exactly what rests on a fallen premise is marked, and rises with it.",
        run=lambda _: cascade.evaluate(),
        show=lambda report: Console().print(cascade.render_cascade(report), markup=False),
    ),
    "conflicts": Evaluation(
        purpose="Whether statements that cannot both hold are told from those that can.",
        run=lambda _: contradictions.evaluate(contradictions.read_statements()),
        show=show_labelled,
    ),
    "duplicates": Evaluation(
        purpose="The rule for duplicates, and the threshold for hints of the embedder in use.",
        run=_duplicates,
        show=tables.show,
    ),
    "headlines": Evaluation(
        purpose="Whether the headline of a text says its point.",
        run=lambda _: headlines.evaluate(headlines.read_texts()),
        show=headlines.show_headlines,
    ),
    "kinds": Evaluation(
        purpose="Whether a text without a kind is taken for what a reader would call it.",
        run=lambda _: kinds.evaluate(kinds.read_texts()),
        show=kinds.show_kinds,
    ),
    "notes": Evaluation(
        purpose="What is claimed of six weeks of notes, what waits for review, what boot shows.",
        run=_notes,
        show=notes.show_notes,
    ),
    "preferences": Evaluation(
        purpose="Whether instructions and preferences are told from requests, facts and stories.",
        run=lambda _: preferences.evaluate(preferences.read_sentences()),
        show=show_labelled,
    ),
    "prompts": Evaluation(
        purpose="Whether prompt hooks show what bears upon a prompt, and nothing otherwise.",
        run=_prompts,
        show=prompts.show_prompts,
    ),
    "reflection": Evaluation(
        purpose="Whether episodes answer questions better than as many tokens of events.",
        run=_reflection,
        show=reflection.show_reflection,
    ),
    "safety": Evaluation(
        purpose="What shows of others' memories, and what lies from the web do to answers.",
        run=_safety,
        show=lambda report: Console().print(
            "\n".join(safety.render_safety(report)), markup=False, highlight=False
        ),
    ),
    "secrets": Evaluation(
        purpose="Whether credentials in sentences and commands are refused, and nothing else.",
        run=lambda _: secrets.evaluate(),
        show=show_labelled,
    ),
    "timeline": Evaluation(
        purpose="Whether questions of time are answered by the memories of that time.",
        run=_timeline,
        show=timeline.show_timeline,
    ),
    "times": Evaluation(
        purpose="Which span a phrase of time means, and whether a question names one at all.",
        run=lambda _: times.evaluate(times.read_questions()),
        show=show_labelled,
    ),
    "truth": Evaluation(
        purpose="Whether recall puts what is current first when agents never revise.",
        run=_truth,
        show=truth.show_truth,
    ),
}
