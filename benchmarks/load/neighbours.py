"""`python -m benchmarks load neighbours`: how many of the nearest vectors Postgres finds."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import mean, median
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import psutil
import psycopg
import typer
from commonbrain_server.dev_servers import login, postgres_server
from commonbrain_server.postgres.opening import NEAREST, open_postgres
from commonbrain_server.postgres.vectors import (
    EF_CONSTRUCTION,
    HNSW_M,
    code_of,
    vector_index_name,
)
from commonbrain_server.stores import upgrade_store
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.corpus import questions as make_questions
from benchmarks.load.bulk import projection
from benchmarks.load.dataset import Clusters, made
from benchmarks.load.recalls import processor_ms
from benchmarks.load.runs import Folder
from benchmarks.load.stack import PROGRAM, SETTINGS
from commonbrain.clock import SystemClock
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.model.timestamps import to_millis
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.repositories.memory_rows import PROJECTED

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from commonbrain.embeddings.interface import Embedder, Matrix
    from commonbrain.storage.store import Store

_BATCH: Final = 20_000
_FOUND: Final = 10
_CANDIDATES: Final = 60
"""As many as a recall asks for by default."""
_TIE: Final = 3e-4
"""Half precision tells no two cosines apart that differ by less."""
_SEED: Final = 7
_PROJECTS: Final = {"one in ten": (10, 0), "one in a hundred": (100, 7)}
"""Which numbers of memories are in a project: those with this remainder."""
# Two tenants whose vectors are in one partition, and so in one index.
_TOGETHER: Final = (
    "SELECT name FROM (SELECT 'tenant-' || n AS name FROM generate_series(0, 199) AS n) AS names "
    "WHERE satisfies_hash_partition('vectors'::regclass, %s, 0, name::varchar) LIMIT 2"
)
_PARTS: Final = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'vectors'::regclass"
_GIN: Final = "DROP INDEX IF EXISTS ix_memory_text_words"
_WORDED: Final = (
    "INSERT INTO memory_text (tenant_id, memory_id, length, words) "
    "SELECT tenant_id, id, 2, to_tsvector('commonbrain', 'a note') FROM memories"
)
_COPY: Final = (
    "COPY vectors (tenant_id, memory_id, space_id, part, vector) FROM STDIN (FORMAT BINARY)"
)
_SIZES: Final = "SELECT tenant_id, count(*) FROM vectors GROUP BY tenant_id ORDER BY 2 DESC"
_EXACTLY: Final = (
    "SELECT -(vector <#> %(query)s) FROM vectors WHERE tenant_id = %(tenant)s "
    "ORDER BY vector <#> %(query)s LIMIT %(limit)s"
)
_BUILT: Final = (
    "SELECT c.relname, coalesce(c.reloptions, '{}'), pg_relation_size(c.oid) FROM pg_class c "
    "WHERE c.relname LIKE 'ix_vectors_0_nearest%' AND c.relkind = 'i'"
)


class Data(StrEnum):
    """How vectors are drawn from those of 4,000 real notes."""

    CLUSTERED = "clustered"
    """As `load fill` draws them: near one note, with noise in every dimension, which is harder to
    search than texts are: within a cluster, all are about equally far from each other."""
    MIXED = "mixed"
    """Between three notes near each other, with little noise: few dimensions, as texts have."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The vectors of a tenant, in batches that are the same each time."""

    data: Data
    clusters: Clusters
    count: int
    seed: int

    def batches(self) -> Iterator[Matrix]:
        """Draw unit vectors in half precision."""
        random_source = np.random.default_rng(self.seed)
        near = _near_each(self.clusters.owners) if self.data is Data.MIXED else None
        for first in range(0, self.count, _BATCH):
            count = min(_BATCH, self.count - first)
            if near is None:
                yield self.clusters.draw(count, random_source=random_source)
            else:
                yield _mixed(self.clusters.owners, near, count, random_source=random_source)


def _clusters(file: Path, embedder: Embedder) -> Clusters:
    """Embed the first notes of the corpus once: that takes a minute."""
    if not file.exists():
        np.save(file, Clusters.of(embedder).owners)
    return Clusters(np.load(file))


def _near_each(owners: Matrix) -> Any:  # noqa: ANN401 a matrix of integers
    """Return the ten nearest of each, (len(owners), 10)."""
    return np.argsort(-(owners @ owners.T), axis=1)[:, 1:11]


def _mixed(owners: Matrix, near: Any, count: int, *, random_source: np.random.Generator) -> Matrix:  # noqa: ANN401
    """Draw points between a note and two of its ten nearest, as SMOTE does between two."""
    first = random_source.integers(len(owners), size=count)
    others = near[first[:, None], random_source.integers(near.shape[1], size=(count, 2))]
    weights = random_source.dirichlet([1, 1, 1], size=count).astype(np.float32)
    chosen = owners[np.column_stack([first, others])]
    noise = random_source.standard_normal((count, owners.shape[1]), dtype=np.float32) * 0.005
    drawn = np.einsum("ijk,ij->ik", chosen, weights) + noise
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)


def _is_in(project: str | None, numbers: Any) -> Any:  # noqa: ANN401 arrays of integers and booleans
    """Return which memories are in a project; all if it is None."""
    if project is None:
        return np.ones(len(numbers), bool)
    each, remainder = _PROJECTS[project]
    return numbers % each == remainder


def _truth(drawn: Drawn, queries: Matrix) -> dict[str | None, Matrix]:
    """Compute the ten greatest cosines of each query with every vector, by project."""
    best = dict.fromkeys((None, *_PROJECTS), np.full((len(queries), _FOUND), -2.0, np.float32))
    for number, batch in enumerate(drawn.batches()):
        cosines = queries @ batch.astype(np.float32).T
        numbers = np.arange(len(batch)) + number * _BATCH
        for project, known in best.items():
            among = np.concatenate([known, cosines[:, _is_in(project, numbers)]], axis=1)
            best[project] = -np.sort(-np.partition(among, -_FOUND, axis=1)[:, -_FOUND:], axis=1)
    return best


def _project_of(number: str) -> str:
    """Return SQL for the project of a memory by its number."""
    cases = " ".join(
        f"WHEN {number} % {each} = {remainder} THEN '{name}'"
        for name, (each, remainder) in _PROJECTS.items()
    )
    return f"CASE {cases} ELSE 'elsewhere' END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A store of two tenants in one index: one large, one with a tenth as many memories."""

    url: str
    program: str
    embedder: Embedder
    drawn: dict[str, Drawn]

    def fill(self) -> None:
        """Write both tenants by COPY and by SQL, unless it was done."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            register_vector(connection)
            if connection.execute("SELECT 1 FROM memories LIMIT 1").fetchone():
                return
            for name in connection.execute(_BUILT).fetchall():
                connection.execute(f"DROP INDEX {name[0]}".encode())
            connection.execute(_GIN)
            connection.execute("SET synchronous_commit = off")
            [(space,)] = connection.execute("SELECT id FROM spaces").fetchall()
            for tenant, drawn in self.drawn.items():
                _write_memories(connection, tenant, drawn.count)
                _write_vectors(connection, tenant, drawn, space=space)
            connection.execute(_WORDED)
            connection.execute("VACUUM ANALYZE")

    def build(self, *, m: int, ef_construction: int) -> str:
        """Build the index so, unless it is; return how, its size, and the seconds it took."""
        options = [f"m={m}", f"ef_construction={ef_construction}"]
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            known = connection.execute(_BUILT).fetchall()
            since = time.monotonic(), _server_s(connection)
            if [list(one[1]) for one in known] != [options]:
                for name, *_ in known:
                    connection.execute(f"DROP INDEX {name}".encode())
                [(space,)] = connection.execute("SELECT id FROM spaces").fetchall()
                connection.execute("SET maintenance_work_mem = '3GB'")
                made = NEAREST.format(
                    name=vector_index_name("vectors_0", space),
                    table="vectors_0",
                    code=code_of("vector", dimensions=self.embedder.space.dimensions),
                    options=", ".join(options),
                    space=space,
                )
                connection.execute(made.encode())
            built_s = time.monotonic() - since[0]
            spent_s = _server_s(connection) - since[1]
            [(*_, size)] = connection.execute(_BUILT).fetchall()
            connection.execute("CHECKPOINT")
        vectors = sum(one.count for one in self.drawn.values())
        return (
            f"{', '.join(options)}: {size / 1e6:,.0f} MB, {size / vectors:,.0f} bytes a vector; "
            f"built in {built_s:,.0f} s, {spent_s:,.0f} s of processor"
        )


def _server_s(connection: psycopg.Connection[Any]) -> float:
    """Read the processor time of a connection's process and of workers that have ended."""
    server = psutil.Process(connection.info.backend_pid).parent()
    ended = server.cpu_times() if server else None
    workers_s = ended.children_user + ended.children_system if ended else 0.0
    return processor_ms(connection) / 1000 + workers_s


def _write_memories(connection: psycopg.Connection[Any], tenant: str, count: int) -> None:
    """Write copies of one note, numbered, in three projects."""
    [note] = made([1], seed=_SEED, agents=1, at=SystemClock().now())
    connection.execute(
        "INSERT INTO tenants (id, created_at, audit_key) VALUES (%s, %s, '\\x00')",
        (tenant, to_millis(note.recorded_at)),
    )
    # Rows that refer to each other are all written here, so nothing needs to be checked.
    connection.execute("SET session_replication_role = replica")
    with connection.transaction():
        connection.execute("CREATE TEMP TABLE note (LIKE memories) ON COMMIT DROP")
        columns = ", ".join(PROJECTED)
        with connection.cursor().copy(
            f"COPY note (tenant_id, {columns}) FROM STDIN".encode()
        ) as copy:
            copy.write_row(projection(note, tenant))
        others = ", ".join(name for name in PROJECTED if name not in {"id", "project"})
        connection.execute(
            f"INSERT INTO memories (tenant_id, id, project, {others}) "  # noqa: S608 our own
            f"SELECT tenant_id, n + 1, {_project_of('n')}, {others} "
            f"FROM note, generate_series(0, {count - 1}) AS n".encode()
        )


def _write_vectors(
    connection: psycopg.Connection[Any], tenant: str, drawn: Drawn, *, space: int
) -> None:
    number = 0
    with connection.cursor().copy(_COPY.encode()) as copy:
        copy.set_types(["varchar", "int8", "int4", "int2", "halfvec"])
        for batch in drawn.batches():
            for vector in batch:
                number += 1
                copy.write_row((tenant, number, space, 0, HalfVector(vector)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What each query of a search found and cost."""

    name: str
    shares: Sequence[float]
    """Of the ten nearest, those that were found."""
    spent: Sequence[float]
    """Milliseconds of Postgres' processor."""
    waited: Sequence[float]
    """Milliseconds."""

    @property
    def recall(self) -> float:
        """Of the nearest of all queries, those that were found."""
        return mean(self.shares)

    def __str__(self) -> str:
        """Describe it in a line."""
        worst = sorted(self.shares)[: len(self.shares) // 10]
        return (
            f"{self.name} recall@{_FOUND} {self.recall:.3f}  worst tenth {mean(worst):.2f}"
            f"  processor {mean(self.spent):6.2f} ms, p50 {median(self.spent):6.2f}"
            f"  wall {mean(self.waited):6.2f}, p50 {median(self.waited):6.2f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched for: in which tenant, by which queries, and what is nearest."""

    store: Store
    tenant: str
    queries: Matrix
    project: str | None
    nearest: Matrix
    """The ten greatest cosines of each query, best first."""

    def measured(self, codes: int | None) -> Measured:
        """Search once to warm up and once more; `codes` are the program's own if None."""
        self._results(codes)
        results, spent, waited = zip(*self._results(codes), strict=True)
        where = f"{self.tenant:<10} {self.project or 'everything':<17}"
        name = f"codes {codes or 'own':>5}  {where}"
        return Measured(name=name, shares=self._shares(results), spent=spent, waited=waited)

    def _shares(self, results: Sequence[Any]) -> list[float]:
        """Return the share of the nearest that was found by each query."""
        return [
            float(np.sum(cosines[:_FOUND] >= least[-1] - _TIE)) / _FOUND
            for cosines, least in zip(results, self.nearest, strict=True)
        ]

    def _results(self, codes: int | None) -> list[tuple[Any, float, float]]:
        """Return for each query the cosines found, and what they cost in milliseconds."""
        scope = QueryScope(
            caller=Caller(tenant=self.tenant, agent="agent-0"),
            filter=Filter(project=self.project),
            now=SystemClock().now(),
        )
        each: list[tuple[Any, float, float]] = []
        with self.store.snapshot(self.tenant) as tx:
            work = tx.work
            index: Any = tx.index
            index = replace(index, which=replace(index.which, codes=codes))
            connection: Any = work.connection.connection.driver_connection
            for query in self.queries:
                since = time.perf_counter(), processor_ms(connection)
                hits = index.nearest(query, scope, limit=_CANDIDATES)
                waited = (time.perf_counter() - since[0]) * 1000
                spent = processor_ms(connection) - since[1]
                each.append((np.array([hit.score for hit in hits]), spent, waited))
        return each


def neighbours(
    folder: Folder,
    memories: int = 100_000,
    data: Data = Data.CLUSTERED,
    questions: int = 200,
    index: Annotated[
        list[str] | None, typer.Option(help="Build the index with M/EF_CONSTRUCTION.")
    ] = None,
    codes: Annotated[
        list[int] | None,
        typer.Option(help="How many vectors a search of everything compares."),
    ] = None,
) -> None:
    """Compare searches in a tenant's index with searches of every vector.

    There are two tenants in one index, the second with a tenth of the memories of the first. In
    each, everything is searched, then a project with a tenth and one with a hundredth of it.
    Recall is the share of the ten nearest that are found; the processor's time is Postgres' own.
    """
    embedder = make_embedder(load_settings())
    with filled(folder, embedder, memories=memories, data=data) as (store, made_):
        queries = np.stack([embedder.query(one) for one in make_questions(questions, of=20_000)])
        searches = [
            Search(store=store, tenant=tenant, queries=queries, project=project, nearest=nearest)
            for tenant, drawn in made_.drawn.items()
            for project, nearest in _truth(drawn, queries).items()
        ]
        for built in index or [f"{HNSW_M}/{EF_CONSTRUCTION}"]:
            m, ef_construction = (int(one) for one in built.split("/"))
            how = made_.build(m=m, ef_construction=ef_construction)
            print(f"\n{memories:,} {data}, {how}", flush=True)
            for own in codes or [None]:
                for search in searches:
                    if own is None or search.project is None:
                        print(search.measured(own), flush=True)


def nearest(
    folder: Folder,
    questions: int = 100,
    codes: Annotated[
        int | None, typer.Option(help="How many vectors a search by the index compares.")
    ] = None,
) -> None:
    """Compare searches as recall runs them with searches of every vector, in each tenant.

    The last line is what a caller of any tenant finds on average, if tenants call in proportion to
    their memories.
    """
    embedder = make_embedder(load_settings())
    queries = np.stack([embedder.query(one) for one in make_questions(questions, of=20_000)])
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server(folder / "postgres", settings=SETTINGS))
        owner = stack.enter_context(closing(psycopg.connect(url, autocommit=True)))
        register_vector(owner)
        owner.execute("SET enable_indexscan = off")
        program = open_postgres(
            login(url, PROGRAM), space=embedder.space, clock=SystemClock(), lock_timeout_s=10
        )
        store = stack.enter_context(closing(program))
        shares: list[float] = []
        counts: list[int] = []
        for tenant, count in owner.execute(_SIZES).fetchall():
            truth = np.array([_exactly_nearest(owner, tenant, query) for query in queries])
            search = Search(
                store=store, tenant=tenant, queries=queries, project=None, nearest=truth
            )
            counts.append(count)
            measured = search.measured(codes)
            shares.append(measured.recall)
            print(f"{count:>9,} memories  {measured}", flush=True)
        print(f"recall@{_FOUND} of all: {np.average(shares, weights=counts):.3f}")


def _exactly_nearest(owner: psycopg.Connection[Any], tenant: str, query: Matrix) -> list[float]:
    """Return the greatest cosines of a query with every vector of a tenant, best first."""
    given = {"tenant": tenant, "query": HalfVector(query), "limit": _FOUND}
    return [cosine for (cosine,) in owner.execute(_EXACTLY, given).fetchall()]


@contextmanager
def filled(
    folder: Path, embedder: Embedder, *, memories: int, data: Data
) -> Generator[tuple[Store, Filled]]:
    """Run a server with a filled store, made in the folder if it is not there."""
    settings = {**SETTINGS, "synchronous_commit": "off"}
    place = folder / f"{data}-{memories}"
    is_new = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    with postgres_server(place / "postgres", settings=settings) as url:
        program = login(url, PROGRAM)
        if is_new:
            # An upgrade later would build the index of another run again.
            upgrade_store(url, role=PROGRAM)
        clusters = _clusters(folder / "owners.npy", embedder)
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            [(parts,)] = connection.execute(_PARTS).fetchall()
            tenants = [name for (name,) in connection.execute(_TOGETHER, (parts,)).fetchall()]
        counts = (memories, memories // 10)
        made_ = Filled(
            url=url,
            program=program,
            embedder=embedder,
            drawn={
                tenant: Drawn(data, clusters, count, _SEED + at)
                for at, (tenant, count) in enumerate(zip(tenants, counts, strict=True))
            },
        )
        made_.fill()
        with closing(
            open_postgres(program, space=embedder.space, clock=SystemClock(), lock_timeout_s=10)
        ) as store:
            yield store, made_
