"""Every evaluation on data of this package by its name; `brain eval NAME` runs one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from commonbrain_models.calibration import read_pairs

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.interface import Progress
from commonbrain_evals import (
    cascade,
    citations,
    duplicates,
    failures,
    headlines,
    kinds,
    languages,
    notes,
    prompts,
    reflection,
    safety,
    salience,
    timeline,
    truth,
    turns,
)
from commonbrain_evals.labelled import show_labelled, show_lines
from commonbrain_evals.text_rules import TEXT_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """An evaluation on data that ships with the package."""

    run: Callable[[Progress], Any]
    """Returns the report, a dataclass that can be written as JSON."""
    show: Callable[[Any], None]
    """Prints the report for people."""


def _with_embedder(
    evaluate: Callable[..., Any], read: Callable[[], Any]
) -> Callable[[Progress], Any]:
    """Return the evaluation of rows with the embedder of the settings."""
    return lambda on_progress: evaluate(
        read(), make_embedder(load_settings()), on_progress=on_progress
    )


def _timeline(on_progress: Progress) -> timeline.TimelineReport:
    evaluate = partial(timeline.evaluate, notes=timeline.read_notes())
    return _with_embedder(evaluate, timeline.read_questions)(on_progress)


def _with_embedder_and_notes(
    evaluate: Callable[..., Any], read: Callable[[], tuple[Any, Any]]
) -> Callable[[Progress], Any]:
    """Like `_with_embedder` for notes and what is asked of them."""
    return lambda on_progress: evaluate(
        *read(), embedder=make_embedder(load_settings()), on_progress=on_progress
    )


EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    **{
        name: Evaluation(run=lambda _, rule=rule: rule.evaluate(), show=show_labelled)
        for name, rule in TEXT_RULES.items()
    },
    "cascade": Evaluation(
        run=lambda _: cascade.evaluate(),
        show=lambda report: show_lines(cascade.render_cascade(report)),
    ),
    "citations": Evaluation(
        run=lambda _: citations.evaluate(*citations.read_edits()),
        show=citations.show_citations,
    ),
    "duplicates": Evaluation(
        run=_with_embedder(duplicates.evaluate, read_pairs),
        show=duplicates.show_duplicates,
    ),
    "failures": Evaluation(
        run=_with_embedder(failures.evaluate, failures.read_sessions),
        show=failures.show_failures,
    ),
    "headlines": Evaluation(
        run=lambda _: headlines.evaluate(headlines.read_texts()),
        show=headlines.show_headlines,
    ),
    "kinds": Evaluation(
        run=lambda _: kinds.evaluate(kinds.read_texts()),
        show=kinds.show_kinds,
    ),
    "languages": Evaluation(
        run=_with_embedder_and_notes(languages.evaluate, languages.read_languages),
        show=languages.show_languages,
    ),
    "notes": Evaluation(
        run=_with_embedder(notes.evaluate, notes.read_notes),
        show=notes.show_notes,
    ),
    "prompts": Evaluation(
        run=_with_embedder_and_notes(prompts.evaluate, prompts.read_prompts),
        show=prompts.show_prompts,
    ),
    "reflection": Evaluation(
        run=_with_embedder(reflection.evaluate, reflection.read_days),
        show=reflection.show_reflection,
    ),
    "safety": Evaluation(
        run=lambda move: safety.evaluate(make_embedder(load_settings()), on_progress=move),
        show=lambda report: show_lines(safety.render_safety(report)),
    ),
    "salience": Evaluation(
        run=lambda _: salience.evaluate(salience.read_texts()),
        show=salience.show_salience,
    ),
    "timeline": Evaluation(run=_timeline, show=timeline.show_timeline),
    "truth": Evaluation(
        run=_with_embedder(truth.evaluate, truth.read_cases),
        show=truth.show_truth,
    ),
    "turns": Evaluation(
        run=_with_embedder_and_notes(turns.evaluate, turns.read_turns),
        show=turns.show_turns,
    ),
}
