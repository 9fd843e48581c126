"""Every evaluation on data of this package by its name; `brain eval NAME` runs one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from commonbrain.embeddings.interface import Embedder
from commonbrain.retrieval.calibration import read_pairs
from commonbrain.runtime.bootstrap import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.interface import Progress
from commonbrain_evals import (
    cascade,
    duplicates,
    headlines,
    kinds,
    notes,
    prompts,
    reflection,
    safety,
    timeline,
    truth,
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


def _with_embedder(evaluate: Callable[[Embedder, Progress], Any]) -> Callable[[Progress], Any]:
    return lambda on_progress: evaluate(make_embedder(load_settings()), on_progress)


EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    **{
        name: Evaluation(run=lambda _, rule=rule: rule.evaluate(), show=show_labelled)
        for name, rule in TEXT_RULES.items()
    },
    "cascade": Evaluation(
        run=lambda _: cascade.evaluate(),
        show=lambda report: show_lines(cascade.render_cascade(report)),
    ),
    "duplicates": Evaluation(
        run=_with_embedder(
            lambda embedder, move: duplicates.evaluate(read_pairs(), embedder, on_progress=move)
        ),
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
        run=_with_embedder(
            lambda embedder, move: notes.evaluate(notes.read_notes(), embedder, on_progress=move)
        ),
        show=notes.show_notes,
    ),
    "prompts": Evaluation(
        run=_with_embedder(
            lambda embedder, move: prompts.evaluate(
                *prompts.read_prompts(), embedder=embedder, on_progress=move
            )
        ),
        show=prompts.show_prompts,
    ),
    "reflection": Evaluation(
        run=_with_embedder(
            lambda embedder, move: reflection.evaluate(
                reflection.read_days(), embedder, on_progress=move
            )
        ),
        show=reflection.show_reflection,
    ),
    "safety": Evaluation(
        run=_with_embedder(lambda embedder, move: safety.evaluate(embedder, on_progress=move)),
        show=lambda report: show_lines(safety.render_safety(report)),
    ),
    "timeline": Evaluation(
        run=_with_embedder(
            lambda embedder, move: timeline.evaluate(
                timeline.read_questions(),
                embedder,
                notes=timeline.read_notes(),
                on_progress=move,
            )
        ),
        show=timeline.show_timeline,
    ),
    "truth": Evaluation(
        run=_with_embedder(
            lambda embedder, move: truth.evaluate(truth.read_cases(), embedder, on_progress=move)
        ),
        show=truth.show_truth,
    ),
}
