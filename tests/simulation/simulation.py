"""One simulation: steps drawn by a seed, until one of the promises does not hold."""

# ruff: noqa: S311 it is meant to be foreseen

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import sqlalchemy as sa

from commonbrain.model.errors import NotFoundError, RejectedError, UnavailableError
from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.interface import ignore_progress
from commonbrain.storage.sqlite.backup import put_in_place
from commonbrain.storage.sqlite.driver import driver
from tests.older_stores import make_older
from tests.simulation import calls
from tests.simulation.calls import Call, Effect
from tests.simulation.checks import adopt, check_all, check_is_found, check_is_hidden
from tests.simulation.faults import (
    LOG,
    Failure,
    Fault,
    damaged,
    full_disk,
    listening,
    put_back,
)
from tests.simulation.world import AGENTS, TENANTS, WHY, Modelled, World, seeded_secrets
from tests.working import a_worker

STATEMENTS = 30
"""Statements of a call among which faults are drawn; the longer ones have more."""
VOLATILE = {"access_count", "last_access_at", "believed_since"}
"""What an undo does not give back: when and how often it was read, since when it is believed."""


OWNED = {
    **dict.fromkeys(("facts", "events", "rules", "tasks", "entities", "annotations"), "*"),
    "vectors": "space_id, part, hex(vector)",
}
"""Columns of a memory in other tables."""


Result = TypeVar("Result")


class SimulationError(AssertionError):
    """A promise that does not hold, with the steps that led there."""


@dataclass
class Simulation:
    """A world and its steps."""

    seed: int
    folder: Path
    trace: list[str] = field(default_factory=list[str])
    backup: tuple[Path, list[Modelled]] | None = None

    def run(self, steps: Collection[int]) -> World:
        """Run the steps of these numbers; the same ones do the same whatever the others are.

        Raises:
            SimulationError: a promise does not hold; it names the step.

        """
        with seeded_secrets(self.seed):
            self.world = World(self.folder, seed=self.seed)
            try:
                for number in steps:
                    draw = Random(f"{self.seed}.{number}")
                    (name,) = draw.choices(list(STEPS), [one[0] for one in STEPS.values()])
                    self.trace.append(f"{number} {name}")
                    STEPS[name][1](self, draw)
                check_all(self.world)
                self.trace.append("end")
                self.lose_log(Random(self.seed))
            except Exception as error:
                raise SimulationError(f"{type(error).__name__}: {error}") from error
            finally:
                self.world.drop()
        return self.world

    def note(self, text: str) -> None:
        self.trace[-1] += f", {text}"

    # What agents do

    def attempt(self, name: str, call: Call) -> bool:
        """Make a call; a refused one changes nothing."""
        before = self.world.audited()
        try:
            effect = call()
        except (RejectedError, NotFoundError) as error:
            self.note(f"{name} refused: {error}")
            assert self.world.audited() == before, "a refused call left a line in the audit"
            return False
        self.note(name)
        self.acknowledge(name, effect)
        return True

    def acknowledge(self, name: str, effect: Effect) -> None:
        effect()
        self.world.done[name] += 1

    def call(self, draw: Random) -> None:
        drawn = calls.draw_call(self.world, draw)
        if drawn is not None:
            name, about, call = drawn
            self.note(" ".join(sorted(about)))
            self.attempt(name, call)

    def recall(self, draw: Random) -> None:
        memory = self.world.choose(draw)
        if memory is not None:
            brain = self.world.view(draw, tenant=memory.tenant, agent=memory.agent)
            check_is_found(brain, memory)

    def peek(self, draw: Random) -> None:
        """Look for what another may not see, as an agent of the same or of another tenant."""
        memory = self.world.choose(draw, lambda one: one.readers is not None)
        if memory is None:
            return
        assert memory.readers is not None
        others = [(memory.tenant, one) for one in AGENTS if one not in memory.readers]
        others += [(one, memory.agent) for one in TENANTS if one != memory.tenant]
        tenant, agent = draw.choice(others)
        check_is_hidden(self.world.view(draw, tenant=tenant, agent=agent), memory)

    def undo(self, draw: Random) -> None:
        """Let an agent change some memories while others work, and undo what it did."""
        world, agent = self.world, f"temp{next(self.world.numbers)}"
        mine = [
            one
            for one in (world.choose(draw, _is_teams) for _ in range(3))
            if one is not None and one.tenant == LOCAL_TENANT
        ]
        before = {one.id: (deepcopy(one), self.row_of(one)) for one in mine}
        world.busy |= before.keys()
        made: list[Modelled] = []
        born: dict[str, Modelled] = {}
        for _ in range(draw.randint(1, 5)):
            if draw.random() < 0.3:
                self.call(draw)
                continue
            active = [one for one in (*mine, *made) if one.state is State.ACTIVE]
            if not active or draw.random() < 0.2:
                size = len(world.known)
                call = calls.remember(world, draw, agent=agent, tenant=LOCAL_TENANT)
                self.attempt("remember", call)
                new = world.known[size:]
            else:
                size = len(world.known)
                memory = draw.choice(active)
                names = [
                    one
                    for one in calls.ON_ACTIVE
                    if one != "erase" and (one not in calls.OF_TASKS or memory.kind == "task")
                ]
                name = draw.choice(names)
                self.attempt(name, calls.ON_ACTIVE[name][1](world, draw, memory, agent))
                new = world.known[size:]
            made += new
            born |= {one.id: deepcopy(one) for one in new}
            world.busy |= {one.id for one in new}
        brain = world.view(draw, tenant=LOCAL_TENANT, agent=agent)
        preview = brain.undo(agent=agent, reason=WHY)
        if preview.count:
            done = brain.undo(agent=agent, reason=WHY, confirm=preview.count)
            assert not done.skipped_count, f"undo skipped {done.skipped}"
            world.done["undo"] += 1
        self.note(f"undo {preview.count}")
        for one in made:
            one.state, one.by, one.is_pinned = State.FORGOTTEN, None, False
            first = born[one.id]
            one.tags, one.notes, one.links, one.votes = first.tags, set(), set(), {}
            one.status, one.lease = first.status, first.lease
        for one in mine:
            was, row = before[one.id]
            now = self.row_of(one)
            other = {name: (row[name], now[name]) for name in row if row[name] != now[name]}
            assert not other, f"undo did not give back {other}: {one}"
            one.state, one.by, one.is_pinned = was.state, was.by, was.is_pinned
            one.tags, one.notes, one.votes = was.tags, was.notes, was.votes
            one.links = world.unerased(was.links)
            one.status, one.lease = was.status, was.lease
        world.busy -= {one.id for one in (*mine, *made)}

    def row_of(self, memory: Modelled) -> dict[str, object]:
        """Return all that is stored of a memory, but for what may change."""
        with self.world.rows() as rows:
            columns = [one[1] for one in rows("PRAGMA table_info(memories)")]
            (row,) = rows("SELECT * FROM memories WHERE id = ?", memory.number)
            columns_by_name: dict[str, object] = dict(zip(columns, row, strict=True))
            for name, owned in OWNED.items():
                statement = f"SELECT {owned} FROM {name} WHERE memory_id = ?"  # noqa: S608
                columns_by_name[name] = sorted(map(repr, rows(statement, memory.number)))
        return {name: value for name, value in columns_by_name.items() if name not in VOLATILE}

    # What goes wrong

    def interleave(self, draw: Random) -> None:
        """Let another call come between two statements of one, or another read within its write."""
        drawn = calls.draw_call(self.world, draw)
        if drawn is None:
            return
        name, about, call = drawn

        def act(fault: Fault) -> None:
            self.note("meanwhile")
            if fault.is_writing:
                self.recall(draw)
            else:
                self.call(draw)

        self.world.busy |= about
        fault = Fault(act, at=draw.randint(1, STATEMENTS))
        with listening(fault.hear):
            effect = self.refusable(call)
        self.world.busy -= about
        if fault.error is not None:
            raise fault.error
        if effect is not None:
            self.note(name)
            self.acknowledge(name, effect)

    def refusable(self, call: Call) -> Effect | None:
        try:
            return call()
        except (RejectedError, NotFoundError) as error:
            self.note(f"refused: {error}")
            return None

    def fail_within(
        self,
        draw: Random,
        act: Callable[[], Result],
        *,
        statements: int = STATEMENTS,
        is_upgrade: bool = False,
    ) -> Result:
        """Let the power fail within a call, and open what is left of the store."""
        failure = Failure(
            self.world.path, in_commit=draw.random() < 0.6, at=draw.randint(1, statements)
        )
        with listening(failure.hear):
            result = act()
        failure.end()
        if failure.error is not None:
            raise failure.error
        self.world.drop()
        put_back(self.world.path, failure.left(draw))
        self.world.open()
        if not is_upgrade:
            assert self.world.digest() in failure.allowed, "a crash left what nobody had written"
        self.note(f"power failed at {failure.count}")
        return result

    def crash(self, draw: Random) -> None:
        """Let the power fail within a call; the call is as if it was made, or as if it was not."""
        drawn = calls.draw_call(self.world, draw)
        if drawn is None:
            return
        name, _, call = drawn
        # Marks of a message have no line in the audit; of the others, a recall may be written too.
        state = self.world.digest if name == "answer" else self.world.audited
        before = state()
        effect = self.fail_within(draw, partial(self.refusable, call))
        is_done = state() != before
        self.note(f"crash in {name}: {'done' if is_done else 'not done'}")
        self.world.done["crash done" if is_done else "crash undone"] += 1
        if is_done:
            assert effect is not None
            self.acknowledge(name, effect)
        check_all(self.world)

    def fill_disk(self, draw: Random) -> None:
        """Let the disk be full within a call, which then fails as a whole."""
        drawn = calls.draw_call(self.world, draw)
        if drawn is None:
            return
        name, _, call = drawn
        before = self.world.audited()
        try:
            with full_disk(self.world.path, left=draw.randint(0, 80_000)):
                effect = self.refusable(call)
        except UnavailableError as error:
            self.note(f"{name} on a full disk: {error.code}")
            self.world.done["full disk"] += 1
            assert self.world.audited() == before, "a failed call left something"
            return
        if effect is not None:
            self.note(name)
            self.acknowledge(name, effect)

    @contextmanager
    def little_space(self, draw: Random, *, most: int) -> Generator[None]:
        """Let the disk be full within a block, which then ends."""
        try:
            with full_disk(self.world.path, left=draw.randint(0, most)):
                yield
        except UnavailableError as error:
            self.note(f"full disk: {error.code}")

    def lose_log(self, draw: Random) -> None:
        """Damage the log of a crashed store: if acknowledged changes are lost, that is reported."""
        world = self.world
        failure = Failure(world.path, in_commit=False, at=1)
        failure.end()
        world.drop()
        files = failure.after
        if LOG in files:
            log, time_ns = files[LOG]
            files[LOG] = (damaged(log, draw=draw), time_ns)
        put_back(world.path, files)
        world.open()
        is_lost = world.digest() not in failure.allowed
        (finding,) = (one for one in world.brains[0].services.store.examine() if one.check == "log")
        assert finding.is_sound != is_lost, f"changes are lost: {is_lost}, {finding}"

    # What happens to a store

    def move_clock(self, draw: Random) -> None:
        is_far = draw.random() < 0.05
        hours = draw.choice((-9_000, 1_000)) if is_far else draw.uniform(-5, 30)
        self.world.clock.move(timedelta(hours=hours))

    def flush(self, draw: Random) -> None:
        draw.choice(self.world.brains).services.journal.flush()

    def reopen(self, _: Random) -> None:
        self.world.close()
        self.world.open()

    def work(self, draw: Random) -> None:
        """Run the jobs that are due, or let the power fail; maintenance may archive memories."""

        def sweep() -> None:
            worker = a_worker(draw.choice(self.world.brains))
            worker.schedule()
            self.note(f"{worker.sweep()} jobs")

        if draw.random() < 0.4:
            self.fail_within(draw, sweep, statements=400)
        else:
            sweep()
        with self.world.rows() as rows:
            states = dict(rows("SELECT id, state FROM memories"))
        for one in self.world.known:
            if one.state is State.ACTIVE and states.get(one.number) == State.ARCHIVED:
                one.state = State.ARCHIVED

    def import_(self, draw: Random) -> None:
        """Import a file; a second import completes one that lost power, or found the disk full."""
        words = [self.world.word() for _ in range(draw.randint(1, 4))]
        file = self.world.folder / f"{words[0]}.md"
        file.write_text("".join(f"# {one}\n\n{' '.join([one] * 8)}\n\n" for one in words))
        way = draw.random()
        if way < 0.3:
            self.fail_within(draw, lambda: self.world.brains[0].import_("markdown", file))
        elif way < 0.5:
            with self.little_space(draw, most=150_000):
                draw.choice(self.world.brains).import_("markdown", file)
        report = draw.choice(self.world.brains).import_("markdown", file)
        assert report.stored + report.exists == len(words), report
        adopt(self.world, words, agent=self.world.brains[0].caller.agent)

    def upgrade(self, draw: Random) -> None:
        """Open a store of an older schema; again, if the power failed or the disk was full."""
        world, way = self.world, draw.random()
        world.close()
        engine = sa.create_engine(f"sqlite:///{world.path}", module=driver())
        with engine.begin() as connection:
            make_older(connection)
        engine.dispose()
        if way < 0.4:
            self.fail_within(draw, world.open, statements=60, is_upgrade=True)
        elif way < 0.6:
            with self.little_space(draw, most=600_000):
                world.open()
            if not world.is_open:
                world.open()
        else:
            world.open()
        check_all(world)

    def repair(self, _: Random) -> None:
        self.world.brains[0].repair()

    def check(self, _: Random) -> None:
        check_all(self.world)

    def back_up(self, draw: Random) -> None:
        target, is_full = self.world.new_file(), draw.random() < 0.3
        with self.little_space(draw, most=2_000_000) if is_full else nullcontext():
            self.world.brains[0].backup(target)
        if target.exists():
            self.backup = (target, deepcopy(self.world.known))

    def restore_backup(self, _: Random) -> None:
        if self.backup is None:
            return
        world = self.world
        world.close()
        file, known = self.backup
        put_in_place(file, world.path, digest=None, clock=world.clock, on_progress=ignore_progress)
        world.known = deepcopy(known)
        world.open()
        check_all(world)

    def move_to_another_store(self, _: Random) -> None:
        """Export one tenant, and go on with a new store made of it."""
        world = self.world
        exported = world.folder / f"{next(world.numbers)}.jsonl"
        world.brains[0].export(exported)
        world.close()
        world.path, self.backup = world.new_file(), None
        world.known = [one for one in world.known if one.tenant == LOCAL_TENANT]
        world.create()
        world.brains[0].merge(exported)
        for one in world.known:
            one.changes = 0
        check_all(world)


def _is_teams(memory: Modelled) -> bool:
    return calls.is_active(memory) and memory.readers is None


STEPS: Final[dict[str, tuple[int, Callable[[Simulation, Random], None]]]] = {
    "call": (50, Simulation.call),
    "recall": (12, Simulation.recall),
    "peek": (8, Simulation.peek),
    "undo": (3, Simulation.undo),
    "interleave": (5, Simulation.interleave),
    "crash": (4, Simulation.crash),
    "full disk": (2, Simulation.fill_disk),
    "clock": (6, Simulation.move_clock),
    "flush": (3, Simulation.flush),
    "reopen": (2, Simulation.reopen),
    "work": (1, Simulation.work),
    "repair": (1, Simulation.repair),
    "check": (1, Simulation.check),
    "backup": (1, Simulation.back_up),
    "restore": (1, Simulation.restore_backup),
    "import": (1, Simulation.import_),
    "upgrade": (1, Simulation.upgrade),
    "another store": (1, Simulation.move_to_another_store),
}
