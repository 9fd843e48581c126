"""How long a search by one field of atoms takes, and what its codes leave out."""

import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import typer

import commonbrain
from benchmarks.corpus import drafts
from benchmarks.large_stores import Lending
from benchmarks.timing import timed, timing
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder, Matrix
from commonbrain.ingestion.embedding import vectors_for
from commonbrain.model.kinds import AtomDetail, CausalField, Kind
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.retrieval.plan import search_terms
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import a_memory

app = typer.Typer()
_FIELD: Final = CausalField.OUTCOME
_RUNS: Final = 50
_BATCH: Final = 500
_TOP: Final = 10
_WORDS: Final = 8
"""Words of a field."""


@app.command()
def fields(atoms: int = typer.Argument(default=10_000)) -> None:
    """Measure a search in one field of generated atoms, and one in the whole atoms.

    The first 4,000 texts are embedded, the rest borrow their vectors with some noise.
    """
    with tempfile.TemporaryDirectory() as folder, commonbrain.open(Path(folder) / "b.db") as brain:
        made = [_atom(number, one.body) for number, one in enumerate(drafts(atoms), 1)]
        held: list[Matrix] = []
        filled = timed(lambda: _fill(brain, made, held=held))
        print(f"{atoms:,} atoms, {atoms / filled.wall_ms * 1000:,.0f} stored a second")
        first = timed(lambda: brain.recall("the first", field=_FIELD))
        print(f"the first search by a field, which reads its vectors: {first.wall_ms:.0f} ms")
        chosen = random.Random(5).sample(made, _RUNS)
        queries = [" ".join(one.body.split(" | ")[2].split()[:3]) for one in chosen]
        _measure(brain, queries, np.stack(held))


def _measure(brain: Brain, queries: Sequence[str], held: Matrix) -> None:
    """Tell how long each way of asking takes, and how many of the true nearest are found."""
    now = brain.services.clock.now()
    vectors = [brain.services.embedder.query(query) for query in queries]
    for name, field in (("a field", _FIELD), ("a whole", None)):
        scope = QueryScope(caller=brain.caller, filter=Filter(field=field), now=now)
        with brain.services.store.snapshot(brain.caller.tenant) as tx:
            tx.index.nearest(vectors[0], scope, limit=60)
            words = timing(
                partial(tx.index.lexical, search_terms(query), scope, limit=40) for query in queries
            )
            near = timing(partial(tx.index.nearest, vector, scope, limit=60) for vector in vectors)
            nearest_ids = [
                [hit.id for hit in tx.index.nearest(v, scope, limit=_TOP)] for v in vectors
            ]
        print(words.line(f"{name} by words"))
        print(near.line(f"{name} by vectors"))
        whole = timing(partial(brain.recall, query, field=field) for query in queries)
        print(whole.line(f"{name}, recall"))
        if field is not None:
            true = [set((np.argsort(-(held @ v))[:_TOP] + 1).tolist()) for v in vectors]
            share = (
                sum(len(t & set(f)) for t, f in zip(true, nearest_ids, strict=True)) / _TOP / _RUNS
            )
            print(f"of the {_TOP} nearest {share:.1%} are found")


def _atom(number: int, body: str) -> Memory:
    """Make an atom of four fields of random words."""
    words = body.lower().split()
    parts = [" ".join(words[n * 3 : n * 3 + _WORDS]) for n in range(4)]
    detail = AtomDetail(subject=parts[0], action=parts[1], outcome=parts[2], consequences=parts[3])
    return a_memory(number, " | ".join(parts), kind=Kind.ATOM, detail=detail)


def _fill(brain: Brain, made: Sequence[Memory], *, held: list[Matrix]) -> None:
    embedder: Embedder = Lending(brain.services.embedder)
    for start in range(0, len(made), _BATCH):
        batch = made[start : start + _BATCH]
        vectors = vectors_for(batch, embedder)
        with brain.services.store.begin(brain.caller.tenant) as tx:
            for one in batch:
                tx.memories.add(one)
                tx.index.put(one, vectors[one.id])
        held += [vectors[one.id].fields[_FIELD] for one in batch]
