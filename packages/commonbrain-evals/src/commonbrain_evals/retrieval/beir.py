"""BEIR's layout: documents, queries, and which documents answer which query.

Thakur et al., 2021, https://github.com/beir-cellar/beir: corpus.jsonl, queries.jsonl, and qrels.tsv
next to them or qrels/test.tsv. One store for all documents.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Draft
from commonbrain_evals.retrieval.corpora import UNDATED, Corpus, DataSet, Question
from commonbrain_evals.retrieval.data_files import read_json_lines, validate_as
from commonbrain_evals.retrieval.study import DOCUMENTS

_EXPECTS: Final = "a folder with corpus.jsonl, queries.jsonl and qrels.tsv or qrels/test.tsv."
_JUDGEMENTS: Final = ("qrels.tsv", "qrels/test.tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query:
    id: Annotated[str, Field(alias="_id")]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    id: Annotated[str, Field(alias="_id")]
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    query: Annotated[str, Field(alias="query-id")]
    document: Annotated[str, Field(alias="corpus-id")]
    score: int


def _files(path: Path) -> Sequence[Path]:
    judgement_file = [path / name for name in _JUDGEMENTS if (path / name).is_file()][:1]
    data_files = [path / "corpus.jsonl", path / "queries.jsonl", *judgement_file]
    missing = [file.name for file in data_files if not file.is_file()]
    if missing or not judgement_file:
        raise InvalidInputError(
            f"{path} has no {', '.join(missing) or _JUDGEMENTS[0]}.", hint=f"Give {_EXPECTS}"
        )
    return data_files


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    documents, queries, judgement_file = files
    gold = _gold(judgement_file)
    texts = {query.id: query.text for query in read_json_lines(_Query, queries)}
    unknown = sorted(set(gold) - set(texts))
    if unknown:
        raise InvalidInputError(
            f"{queries.name} has no query {unknown[0][:40]!r}, which is judged."
        )
    name = documents.parent.name
    yield Corpus(
        name=name,
        drafts=lambda: map(_draft, read_json_lines(_Document, documents)),
        questions=tuple(
            Question(id=f"{name}/{id_}", text=texts[id_], category="all", gold=gold[id_])
            for id_ in gold
        ),
        ends_at=UNDATED,
    )


def _gold(path: Path) -> Mapping[str, Mapping[str, int]]:
    gold: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(DictReader(stream, delimiter="\t"), 2):
            relevance = validate_as(_Judgement, row, where=f"{path.name}, line {number}")
            if relevance.score > 0:
                gold[relevance.query][relevance.document] = relevance.score
    return gold


def _draft(document: _Document) -> Draft:
    """Make an episode: a kind of any length, of which all that are alike are kept."""
    return Draft(
        kind=Kind.EPISODE,
        body=f"{document.title}\n{document.text}" if document.title else document.text,
        source_ref=document.id,
        occurred_at=UNDATED,
    )


BEIR: Final = DataSet(expects=_EXPECTS, files=_files, read=_read, recipes=DOCUMENTS)
