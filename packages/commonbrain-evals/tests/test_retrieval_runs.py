import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from commonbrain_evals import cli
from commonbrain_evals.evaluations import EVALUATIONS
from commonbrain_evals.retrieval.ablation import GROUPS, PARTS, Ablation, differences_of, judge
from commonbrain_evals.retrieval.baselines import BASELINES, RECALL
from commonbrain_evals.retrieval.comparison import compare
from commonbrain_evals.retrieval.corpora import Question
from commonbrain_evals.retrieval.datasets import DATASETS, choose
from commonbrain_evals.retrieval.eval_store import open_eval_store
from commonbrain_evals.retrieval.metrics import DEPTH, METRICS
from commonbrain_evals.retrieval.misses import misses_of
from commonbrain_evals.retrieval.question_runner import AS_SERVED, BUDGETS
from commonbrain_evals.retrieval.record import ALL, Run, read, write
from commonbrain_evals.retrieval.runs import EvalRequest, run
from commonbrain_evals.retrieval.study import STUDY
from commonbrain_evals.retrieval.tables import (
    page,
    run_rows,
    show_comparison,
    show_parts,
    show_run,
    spread,
)
from typer.testing import CliRunner

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.retrieval.plan import ABLATABLE_STAGES, RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.retrieve import RETRIEVERS
from commonbrain.retrieval.score import FEATURE_WEIGHTS
from tests import eval_samples as samples

HARBOUR = Path(__file__).parent / "data" / "harbour"
MAKE: Mapping[str, Callable[[Path], Path]] = {
    "beam": samples.beam,
    "beir": samples.beir,
    "own": samples.own,
    "longmemeval": lambda folder: samples.longmemeval(folder / "l.json"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.locomo(tmp_path_factory.mktemp("data") / "tiny.json")


def ran(source: Path, **options: object) -> Run:
    return run(replace(EvalRequest(dataset="locomo", path=source), **options), settings=Settings())


@pytest.fixture(scope="module")
def first(source: Path) -> Run:
    return ran(source, ablates=True)


@pytest.mark.requirement("EV-03")
def test_recall_is_compared_with_baselines_on_the_same_questions(first: Run) -> None:
    assert list(first.systems) == [RECALL, *BASELINES, STUDY]
    assert first.corpora == 2
    assert first.memories == 8
    assert first.skipped == 2
    assert len(first.categories) == 6
    for of in first.systems.values():
        assert set(of) == {ALL, "single-hop", "multi-hop", "adversarial"}
        assert all(0 <= one.low <= one.mean <= one.high <= 1 for one in of[ALL].values())
    assert first.systems[RECALL][ALL]["R@5 all"].mean == 1


@pytest.mark.requirement("EV-03")
@pytest.mark.requirement("PF-09")
def test_tokens_and_evidence_are_compared_with_no_memory_last_session_and_full_history(
    first: Run,
) -> None:
    of = first.budgets
    assert list(of[RECALL]) == [AS_SERVED, *map(str, BUDGETS)]
    assert of["no memory"]["0"].tokens == of["no memory"]["0"].evidence.mean == 0
    assert 0 < of["last session"][ALL].tokens < first.history_tokens
    assert of["last session"][ALL].evidence.mean < of[RECALL][AS_SERVED].evidence.mean
    assert of["whole history"][ALL].tokens == first.history_tokens
    assert of["whole history"][ALL].evidence.mean == 1
    assert of[RECALL]["500"].tokens <= 500


def test_unanswerable_questions_and_questions_of_other_corpora_are_asked(first: Run) -> None:
    assert first.abstention["unanswerable"].asked == 2
    assert first.abstention["of another corpus"].asked == 6


def test_each_part_of_recall_is_left_out_once(first: Run) -> None:
    assert set(first.ablation) == set(first.left_out) == {*PARTS, *GROUPS}
    assert set(PARTS) >= set(ABLATABLE_STAGES) | (set(RETRIEVERS) - {"recent"}) | (
        {name for name, weight in FEATURE_WEIGHTS.items() if weight} - {"fused"}
    )
    assert set(first.ablation["passages"]) == set(METRICS)
    assert {len(values) for values in first.left_out["passages"].values()} == {
        len(first.categories)
    }


def test_parts_skipped_by_the_ablation_would_not_change_the_results() -> None:
    dataset = DATASETS["own"]
    [corpus] = dataset.read(dataset.files(HARBOUR))
    skipped: set[str] = set()
    with open_eval_store(corpus, settings=Settings(), seed=0) as store:
        apart = Ablation.of(store.brain)

        def results(text: str, *without: str) -> list[tuple[str, float]]:
            left_out = RetrievalOverrides(without=frozenset(without))
            recall = Recall(apart.brain.services, store.brain.caller, left_out)
            recalled = recall(text, max_items=DEPTH, max_tokens=8000, bump=False)
            return [(item.id, item.score) for item in recalled.items]

        for question in corpus.questions[::12]:
            whole, idle = results(question.text), apart.idle()
            assert {part for part in idle if results(question.text, part) != whole} == set()
            skipped |= idle

    assert 3 <= len(skipped) < len(PARTS)


@pytest.mark.requirement("EV-09")
def test_same_data_gives_the_same_record_except_for_its_times(source: Path, first: Run) -> None:
    again = ran(source, ablates=True)

    assert replace(again, times=first.times) == first


@pytest.mark.requirement("EV-09")
def test_record_is_read_as_it_was_written_and_contains_no_text_of_the_data(
    first: Run, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "run.json"
    write(first, path)

    assert read(path) == first
    assert "Pickle" not in path.read_text("utf-8")
    assert "greyhound" not in path.read_text("utf-8")
    assert str(tmp_path) not in path.read_text("utf-8")


def test_sample_of_questions_is_determined_by_the_seed(source: Path) -> None:
    every = {corpus.name: corpus.questions for corpus in DATASETS["locomo"].read([source])}

    def drawn(seed: int) -> list[str]:
        sample = choose(every, questions=2, conversations=None, seed=seed)
        return [question.id for of in sample.own.values() for question in of]

    assert len(drawn(1)) == 2
    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(9)}) > 1
    assert ran(source, conversations=1).corpora == 1


def test_run_without_measurable_questions_is_refused() -> None:
    bare = Question(id="1", text="What do they like?", category="any")
    with pytest.raises(InvalidInputError, match="no question"):
        choose({"one": (bare,)}, questions=None, conversations=None, seed=0)


def test_left_out_parts_are_recorded_and_change_the_results(source: Path) -> None:
    record = ran(source, without=("lexical", "vector"))

    assert record.setup.without == ("lexical", "vector")
    assert record.systems[RECALL][ALL]["R@20 any"].mean == 0
    assert record.systems["full text"][ALL]["R@20 any"].mean > 0.5


def test_unknown_part_or_data_set_is_refused(source: Path) -> None:
    with pytest.raises(InvalidInputError, match="no part 'wings'"):
        ran(source, without=("wings",))
    with pytest.raises(InvalidInputError, match="no data set 'wings'"):
        ran(source, dataset="wings")


@pytest.mark.parametrize("name", MAKE)
def test_every_data_set_can_be_evaluated(name: str, tmp_path: Path) -> None:
    record = run(EvalRequest(dataset=name, path=MAKE[name](tmp_path)), settings=Settings())

    assert record.systems[RECALL][ALL]["R@5 any"].mean == 1
    assert record.refused == 0


@pytest.mark.requirement("EV-14")
def test_longmemeval_is_evaluated_as_published_with_its_blank_turns_and_repeated_sessions(
    tmp_path: Path,
) -> None:
    record = ran(samples.longmemeval_as_published(tmp_path / "l.json"), dataset="longmemeval")

    assert set(record.categories.values()) == {"multi-session"}
    assert record.systems[RECALL][ALL]["R@5 all"].mean == 1
    assert record.sessions[RECALL]["R@5 all"].mean == 1
    assert record.abstention["unanswerable"].asked == 1
    # Of each history a blank turn, and in the first the second copy of a session.
    assert record.refused == 4


@pytest.mark.requirement("EV-09")
def test_runs_are_compared_question_by_question(first: Run, source: Path) -> None:
    worse = ran(source, without=("lexical", "vector"))
    comparison = compare(first, worse, system=RECALL)

    rows = {(row.category, row.metric): row for row in comparison.rows}
    assert comparison.questions == 6
    assert comparison.unshared_questions == 0
    assert rows[ALL, "R@20 any"].difference.mean == -1
    assert rows[ALL, "R@20 any"].is_beyond_noise
    assert any(line.startswith("without") for line in comparison.unlike)
    same = compare(first, first, system="full text")
    assert not any(row.is_beyond_noise for row in same.rows)
    assert not same.unlike


def test_incomparable_runs_are_refused(first: Run) -> None:
    other = replace(first, setup=replace(first.setup, sha256="0" * 64))
    with pytest.raises(InvalidInputError, match="different data"):
        compare(first, other, system=RECALL)
    with pytest.raises(InvalidInputError, match="no system 'wings'"):
        compare(first, first, system="wings")
    apart = replace(first, categories={}, values={RECALL: {}})
    with pytest.raises(InvalidInputError, match="no question in common"):
        compare(first, apart, system=RECALL)


def test_missed_evidence_is_shown_with_its_text_and_the_results(source: Path) -> None:
    blind = ran(source, without=("vector", "links", "passages"))
    missed = list(misses_of(blind, source, count=1))

    assert len(missed) == 1
    rendered = missed[0].render()
    assert missed[0].question.text in rendered
    assert "evidence at none: [" in rendered
    assert next(misses_of(blind, source, count=99)) == missed[0]


def test_misses_of_other_data_are_refused(first: Run, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="other data"):
        list(misses_of(first, samples.locomo(tmp_path / "x.json", "three"), count=1))


def test_report_is_one_page_with_plots_and_no_external_resources(first: Run) -> None:
    spoilt = replace(first, setup=replace(first.setup, source="<script>alert(1)</script>|`"))
    html = page([spoilt])

    assert html.count("<svg") == 4
    assert html.count("<table>") == 6
    assert "<script" not in html
    assert not re.search(r"""(?:src|href)=["']https?:""", html)
    assert page([spoilt]) == html


def test_tables_show_every_system_category_and_part(
    first: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    show_run(first)
    show_comparison(compare(first, first, system=RECALL))
    printed = capsys.readouterr().out

    for name in (*BASELINES, "adversarial", "unanswerable", "passages", "saved of history"):
        assert name in printed


def test_sessions_are_ranked_only_for_data_sets_with_sessions(first: Run, tmp_path: Path) -> None:
    assert list(first.sessions) == list(first.systems)
    assert set(first.sessions[RECALL]) == set(METRICS)
    assert first.sessions[RECALL]["R@5 all"].mean == 1
    assert all(one["R@1 any"].mean >= 0.5 for one in first.sessions.values())
    documents = run(EvalRequest(dataset="beir", path=samples.beir(tmp_path)), settings=Settings())
    assert documents.sessions == {}


@pytest.mark.requirement("EV-15")
def test_sessions_are_shown_with_the_share_of_questions_whose_first_session_is_right(
    first: Run,
) -> None:
    [(columns, rows)] = [
        (columns, list(rows)) for title, columns, rows in run_rows(first) if "session" in title
    ]

    shown = dict(zip(columns, rows[0], strict=True))
    right = first.sessions[RECALL]["R@1 any"]
    assert right.mean > first.sessions[RECALL]["R@1 all"].mean
    assert shown["any@1"] == spread(right)
    assert {"all@5", "all@10"} <= shown.keys()


def test_parts_are_compared_on_several_data_sets(
    first: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(first, setup=replace(first.setup, dataset="beir"), left_out={})
    half = replace(other, left_out={"kind": {"nDCG@10": tuple(-1.0 for _ in first.categories)}})
    trials = judge(differences_of([first, other, half]))
    show_parts(trials)
    printed = capsys.readouterr().out

    measures = {trial.measure for trial in trials}
    assert measures == {"locomo R@10 all", "locomo R@10 all multi-hop", "beir nDCG@10"}
    assert all(part in printed for part in PARTS)
    assert "nothing seen" in printed
    assert "beir nDCG@10" in page([first, half])
    with pytest.raises(InvalidInputError, match="No record tells"):
        differences_of([other])


def test_invalid_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read(path)
    path.write_text("{}", "utf-8")
    with pytest.raises(InvalidInputError, match=r"x\.json is no record"):
        read(path)


def test_record_of_a_later_format_is_refused(first: Run, tmp_path: Path) -> None:
    path = tmp_path / "later.json"
    write(replace(first, format=99), path)
    with pytest.raises(InvalidInputError, match="format 99"):
        read(path)


@pytest.mark.requirement("CL-09")
def test_retrieval_commands_run_compare_and_report(source: Path, tmp_path: Path) -> None:
    shell = CliRunner()
    record, html = tmp_path / "run.json", tmp_path / "page.html"
    arguments = ["run", "locomo", str(source), "--questions", "2", "--out", str(record)]

    done = shell.invoke(cli.app, arguments, catch_exceptions=False)
    as_json = shell.invoke(cli.app, [*arguments, "--json"], catch_exceptions=False)
    compared = shell.invoke(
        cli.app, ["compare", str(record), str(record), "--json"], catch_exceptions=False
    )
    parts = shell.invoke(cli.app, ["parts", str(record)])
    reported = shell.invoke(
        cli.app, ["report", str(record), "--out", str(html)], catch_exceptions=False
    )

    assert str(record) in done.stdout.replace("\n", "")
    assert json.loads(as_json.stdout)["setup"]["questions"] == 2
    assert json.loads(compared.stdout)["questions"] == 2
    assert isinstance(parts.exception, InvalidInputError)
    assert str(html) in reported.stdout.replace("\n", "")
    assert html.read_text("utf-8").startswith("<!doctype html>")


def test_every_evaluation_of_the_package_is_a_command() -> None:
    assert cli.PLAIN.keys() | cli.WITH_OPTIONS == EVALUATIONS.keys()
