"""No transport on one machine shows an agent what another agent of its tenant keeps private."""

from pathlib import Path

import pytest

import commonbrain
from commonbrain.client import Brain
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import FakeClock, SeededRandom
from tests.guarded import a_guarded_brain
from tests.in_process import run_brain
from tests.security.attempts import drawn, spread
from tests.security.transports import TRANSPORTS, tried
from tests.security.world import ASKED, DEEP, ID, World, member, store_private


def filled(owner: Brain, path: Path) -> World:
    """Let cara keep memories and a message private in a store of one tenant."""
    cara, mallory = (member(owner, LOCAL_TENANT, name) for name in ("cara", "mallory"))
    private = store_private(cara, first=500)
    [thread] = cara.message.threads().threads
    own = mallory.remember("The kettle is in the blue cupboard.", kind="fact").items[0].id
    assert own is not None
    owner.services.journal.flush()
    others = [f"{of}_000000000000{n}" for n, of in enumerate("mem mem mem trc job mdl".split())]
    return World(
        attacker=mallory,
        owner=owner,
        theirs=(*others, thread.id, "mem_0000000000009"),
        private=private,
        names=("cara", "projectz", ASKED, "caras"),
        own=own,
        key="",
        path=path,
    )


@pytest.mark.requirement("ST-04")
def test_library_and_mcp_show_nothing_private_to_another_agent(path: Path) -> None:
    with a_guarded_brain(path, clock=FakeClock(), random_source=SeededRandom(1)) as owner:
        world = filled(owner, path)
        every = list(drawn(world))
        for name, each in (("library", 2), ("MCP", 1)):
            transport = TRANSPORTS[name]
            among = [
                *spread([one for one in every if not one.field], each=1),
                *spread([one for one in every if one.way in {"private", "thread"}], each=each),
            ]
            with transport.opened(world) as ask:
                results = tried(world, ask, among=among, transport=transport.of)
            assert results.leaks == []
            assert results.unlike == []
            assert results.answered.total() > 10
        # Its author is shown it: the marks are where the attempts look for them.
        assert DEEP.findall(str(member(owner, LOCAL_TENANT, "cara").list(limit=20)))


@pytest.mark.requirement("ST-04")
def test_command_shows_nothing_private_to_another_agent(path: Path) -> None:
    with commonbrain.open(path) as owner:
        world = filled(owner, path)
    [thread] = world.of("thr")
    lines = (
        *(("get", one) for one in world.private),
        ("recall", f"Cara's {ASKED}"),
        ("list",),
        ("recalls",),
        ("boot", "--project", "projectz"),
        ("session", "list"),
        ("message", "inbox"),
        ("message", "threads"),
        ("message", "history", "--thread", thread),
    )

    def run(agent: str, *words: str) -> str:
        done = run_brain("--store", str(world.path), "--agent", agent, *words, "--json")
        assert done.status in {0, 4}, done
        return done.out + done.err

    for words in lines:
        shown = run("mallory", *words)
        assert not DEEP.findall(shown), words
        assert not {*ID.findall(shown)} & ({*world.private} - {*words}), words
    assert DEEP.findall(run("cara", "get", world.private[0]))
    assert DEEP.findall(run("dan", "message", "inbox"))
