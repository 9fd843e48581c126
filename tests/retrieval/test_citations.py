"""Memories that cite code say what became of it, in the working tree of the caller."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from commonbrain.api.operations.review import render_review_queue
from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.ingestion.citations import cite
from commonbrain.model.citations import (
    Checkout,
    CitationStatus,
    places_in,
    read_checkout,
    read_citations,
)
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.model.recall_result import Item
from commonbrain.model.sessions import ClientInfo
from commonbrain.retrieval.citations import CitedCode
from commonbrain.testing.builders import a_brain
from commonbrain.working_tree import WorkingTree

PAY: Final = '''"""Payments."""

RETRIES = 3
SECRET = None


def charge(card, amount):
    """Charge a card."""
    for _ in range(RETRIES):
        if send(card, amount):
            return True
    return False


def refund(receipt):
    return send(receipt.card, -receipt.amount)
'''
_WAL_WRITE_LOCK: Final = 120
"""The byte of the shared memory of a store that is locked by whoever writes."""
TEXT: Final = "Card charges are tried three times because the gateway drops one in fifty"


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    line = ["git", *identity, *words]
    subprocess.run(line, cwd=root, check=True, capture_output=True)


def a_repository(root: Path, *, path: str, text: str) -> Path:
    """Make a repository with one file, on the branch main."""
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(text)
    git(root, "init", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-m", "Begin")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one file, on the branch main."""
    return a_repository(tmp_path / "shop", path="src/pay.py", text=PAY)


@pytest.fixture
def brain(tmp_path: Path, root: Path) -> Iterator[Brain]:
    """A brain that works in the repository."""
    with a_brain(tmp_path / "brain.db") as opened:
        yield opened.acting_as(contact=ClientInfo(cwd=str(root)), project="shop")


def edit(root: Path, old: str, new: str) -> None:
    file = root / "src" / "pay.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def checkout(root: Path, branch: str) -> None:
    git(root, "branch", "--force", branch, "HEAD")
    (root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")


def remembered(brain: Brain, text: str, *, cites: Sequence[str] = ()) -> str:
    [one] = brain.remember(text, cites=list(cites)).items
    assert one.id is not None
    return one.id


def only(brain: Brain, query: str = TEXT) -> Item:
    [item] = brain.recall(query).items
    return item


def cites_of(brain: Brain) -> list[str]:
    return [one.line() for one in only(brain).cites]


def test_cited_code_is_called_the_same_moved_changed_or_removed(brain: Brain, root: Path) -> None:
    brain.remember(TEXT, cites=["src/pay.py:9-11", "src/pay.py#charge"])
    assert cites_of(brain) == ["src/pay.py:9-11", "src/pay.py#charge"]
    assert "cites src/pay.py:9-11 | cites src/pay.py#charge" in brain.recall(TEXT).evidence

    edit(root, "RETRIES = 3\n", "RETRIES = 3\nPAUSE = 1\n")
    assert cites_of(brain) == [
        "src/pay.py:9-11 (moved to 10)",
        "src/pay.py#charge (moved to 8)",
    ]
    edit(root, "            return True", "            return Receipt(card)")
    assert cites_of(brain) == [
        "src/pay.py:9-11 (changed, now 10)",
        "src/pay.py#charge (changed, now 8)",
    ]
    (root / "src" / "pay.py").unlink()
    assert cites_of(brain) == ["src/pay.py:9-11 (gone)", "src/pay.py#charge (gone)"]


def test_code_that_went_to_another_file_is_found_there(brain: Brain, root: Path) -> None:
    brain.remember(TEXT, cites=["src/pay.py#charge"])

    (root / "lib").mkdir()
    (root / "src" / "pay.py").rename(root / "lib" / "payments.py")

    [cited] = only(brain).cites
    assert cited.status is CitationStatus.MOVED
    assert cited.now_at == "lib/payments.py:7"


def test_a_place_that_the_text_names_is_cited_if_it_exists(brain: Brain, root: Path) -> None:
    text = "Retries stand in src/pay.py:3 and not in src/retry.py:9, see localhost:8080"
    brain.remember(text)
    assert only(brain, text).cites == ()

    edit(root, "RETRIES = 3", "RETRIES = 5")
    assert [one.line() for one in only(brain, text).cites] == ["src/pay.py:3 (changed)"]


@pytest.mark.parametrize(
    ("line", "text"), [(1, "PORT = 5433\nX = 1\n"), (2, "PORT = 5432\nX = 2\n")]
)
def test_a_changed_first_or_last_line_is_changed(
    brain: Brain, root: Path, line: int, text: str
) -> None:
    (root / "port.py").write_text("PORT = 5432\nX = 1\n")
    brain.remember("This line of the ports is fixed", cites=[f"port.py:{line}"])
    (root / "port.py").write_text(text)

    [item] = brain.recall("lines of the ports").items
    assert [one.status for one in item.cites] == ["changed"]


def test_words_that_can_be_no_path_are_stored(brain: Brain) -> None:
    for word in ("x" * 300, "x/" * 150 + "y", "\U0001f600" * 120, "~" * 300):
        [item] = brain.remember(f"The token {word}:12 is what the log printed.").items
        assert item.status == "stored"


def test_removed_code_ranks_last_and_what_binds_stays(brain: Brain, root: Path) -> None:
    brain.remember(TEXT, cites=["src/pay.py#charge"])
    brain.remember("Card refunds never fail at the gateway, says support")
    query = f"{TEXT}, what of refunds?"
    first = brain.recall(query).items[0]
    assert first.cites

    (root / "src" / "pay.py").unlink()
    assert [len(one.cites) for one in brain.recall(query).items] == [0, 1]

    brain.remember(
        "Never charge a card twice for one order",
        kind="rule",
        severity="BLOCKER",
        cites=["src/pay.py#refund"],
    )
    items = brain.recall("charge a card twice for one order").items
    assert items[0].kind == "rule"


def test_code_that_is_not_yet_on_this_branch_is_not_removed(brain: Brain, root: Path) -> None:
    git = root / ".git"
    checkout(root, "feature")
    brain.remember(TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").unlink()
    assert cites_of(brain) == ["src/pay.py#charge (gone)"]

    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert cites_of(brain) == ["src/pay.py#charge (not on this branch)"]
    (git / "HEAD").write_text("ref: refs/heads/other\n")
    assert cites_of(brain) == ["src/pay.py#charge (not on this branch)"]

    # Once the branch is deleted, its code is here or nowhere.
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "feature").unlink()
    assert cites_of(brain) == ["src/pay.py#charge (gone)"]


def test_citations_are_checked_only_in_their_repository(
    brain: Brain, root: Path, tmp_path: Path
) -> None:
    brain.remember(TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").unlink()
    for folder in (tmp_path / "other", tmp_path / "plain"):
        folder.mkdir()
    (tmp_path / "other" / ".git").mkdir()

    for cwd in (str(tmp_path / "other"), str(tmp_path / "plain"), "relative", None):
        elsewhere = brain.acting_as(contact=ClientInfo(cwd=cwd))
        assert cites_of(elsewhere) == ["src/pay.py#charge"]


def test_what_cannot_be_read_is_stored_with_a_warning(brain: Brain, root: Path) -> None:
    (root / "src" / "key.py").write_text('TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"\n')
    cites = ["src/none.py:1", "src/pay.py:400", "src/key.py:1"]

    [stored] = brain.remember(TEXT, cites=cites).items

    assert stored.warnings == (
        "src/none.py:1, src/pay.py:400, src/key.py:1 cannot be read here, so it is not checked "
        "later.",
    )
    assert cites_of(brain) == cites


def test_what_is_no_place_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="no place in code"):
        brain.remember(TEXT, cites=["the payment module"])
    nine = [f"src/pay.py:{line}" for line in range(1, 10)]
    [refused] = brain.remember(TEXT, cites=nine).items
    assert refused.code == "limit_exceeded"
    [one, other] = brain.remember(
        [Draft(body=TEXT, cites=("x",)), Draft(body="Tea is ready")]
    ).items
    assert (one.status, other.status) == ("rejected", "stored")


def test_a_new_version_cites_what_the_old_one_did(brain: Brain, root: Path) -> None:
    [stored] = brain.remember(TEXT, cites=["src/pay.py#charge"]).items
    edit(root, "RETRIES = 3\n", "RETRIES = 3\nPAUSE = 1\n")
    text = f"{TEXT} and five times at night"

    [other] = [brain.revise.supersede(str(stored.id), text, reason="measured")]
    assert cites_of(brain) == ["src/pay.py#charge (moved to 8)"]
    brain.revise.supersede(str(other.id), f"{text}.", reason="again", cites=["src/pay.py:3"])
    assert cites_of(brain) == ["src/pay.py:3"]


def test_paths_are_relative_to_the_folder_or_the_root(brain: Brain, root: Path) -> None:
    inside = brain.acting_as(contact=ClientInfo(cwd=str(root / "src")))
    given = ["pay.py:3", str(root / "src" / "pay.py") + ":4", "src/pay.py#charge"]
    inside.remember(TEXT, cites=given)
    assert cites_of(brain) == ["src/pay.py:3", "src/pay.py:4", "src/pay.py#charge"]


def test_cited_files_are_found_by_their_names(brain: Brain) -> None:
    brain.remember(TEXT, cites=["src/pay.py#refund"])
    assert only(brain, "src/pay.py").cites


def test_what_is_found_broken_in_a_store_is_left_out() -> None:
    place = {"place": "src/pay.py:1"}
    stored: tuple[object, ...] = ("x", [3], [{"place": 7}], {})
    for broken in stored:
        assert read_citations({"citations": broken}) == ()
        assert read_checkout({"checkout": broken}) == Checkout()
    unseen: tuple[Mapping[str, object], ...] = (
        place,
        {**place, "digest": "", "line": "x"},
        {**place, "bag": 3},
    )
    for one in unseen:
        assert [cited.seen for cited in read_citations({"citations": [one]})] == [None]


def test_a_branch_that_was_never_merged_is_named(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    git(root, "init", "-b", "main")
    git(root, "commit", "--allow-empty", "-m", "Begin")
    git(root, "checkout", "-b", "try/sqlite")
    with a_brain(tmp_path / "brain.db") as opened:
        brain = opened.acting_as(contact=ClientInfo(cwd=str(root)))
        brain.remember(TEXT)
        (root / "file").write_text("x")
        git(root, "add", "file")
        git(root, "commit", "-m", "Try")
        assert only(brain).notes == ()

        git(root, "checkout", "main")
        assert only(brain).notes == ("on branch try/sqlite, not merged",)
        # Once it is merged or deleted, nothing is known against it.
        git(root, "pack-refs", "--all")
        assert only(brain).notes == ("on branch try/sqlite, not merged",)
        git(root, "merge", "--no-ff", "try/sqlite")
        assert only(brain).notes == ()
        git(root, "reset", "--hard", "HEAD~1")
        assert only(brain).notes == ("on branch try/sqlite, not merged",)
        git(root, "branch", "-D", "try/sqlite")
        assert only(brain).notes == ()


def test_prompts_and_worktrees_see_the_same_repository(tmp_path: Path) -> None:
    root, side = tmp_path / "shop", tmp_path / "shop-fix"
    a_repository(root, path="src/pay.py", text=PAY)
    git(root, "worktree", "add", "-b", "fix", str(side))
    with a_brain(tmp_path / "brain.db") as opened:
        opened.acting_as(contact=ClientInfo(cwd=str(side))).remember(TEXT, cites=["src/pay.py:3"])
        brain = opened.acting_as(contact=ClientInfo(cwd=str(root)))
        edit(root, "RETRIES = 3", "RETRIES = 5")
        assert cites_of(brain) == ["src/pay.py:3 (changed)"]


def in_review(brain: Brain) -> list[str]:
    """Return what the review queue says of memories, and the first call that answers it."""
    return [
        f"{one.because} -> {one.settle[0]}" for one in brain.review("needs_review").needs_review
    ]


def test_memory_whose_code_is_missing_is_offered_for_review_until_it_is_confirmed(
    brain: Brain, root: Path
) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    remembered(brain, "Refunds are negative sends", cites=["src/pay.py#refund"])
    assert in_review(brain) == []

    edit(root, PAY[PAY.index("def charge") : PAY.index("def refund")], "")
    line = f"cites code that is gone: src/pay.py#charge -> revise review {id_} --reason WHY"
    assert in_review(brain) == [line] == in_review(brain)
    done = brain.revise.review(id_, reason="the gateway still drops calls")
    assert done.changed == (f"{id_} cites: src/pay.py#charge -> none",)
    assert in_review(brain) == []
    assert cites_of(brain) == []
    assert all(one.is_sound for one in brain.services.store.examine())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the locks of files")
@pytest.mark.parametrize("is_bulk", [False, True])
def test_git_is_asked_before_a_review_locks_the_store(
    brain: Brain, root: Path, monkeypatch: pytest.MonkeyPatch, *, is_bulk: bool
) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    git(root, "rm", "src/pay.py")
    git(root, "commit", "-m", "Pay elsewhere")
    locks = root.parent / "locks"
    program = root.parent / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncat /proc/locks >> {locks}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    if is_bulk:
        brain.bulk_edit([id_], "review", confirm=1)
    else:
        brain.revise.review(id_, reason="the gateway still drops calls")

    assert cites_of(brain) == []
    store = (root.parent / "brain.db-shm").stat().st_ino
    held = [line.split() for line in locks.read_text().splitlines()]
    assert held
    writing = str(_WAL_WRITE_LOCK)
    assert [one for one in held if one[-3].endswith(f":{store}") and one[-2] == writing] == []


def test_model_proposes_to_confirm_what_a_person_wrote(brain: Brain, root: Path) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").unlink()

    done = brain.as_model().revise.review(id_, reason="the code is elsewhere")

    assert done.status is ChangeStatus.PROPOSED
    [proposal] = brain.review("proposals").proposals
    assert [one.effects for one in proposal.effects] == [
        ("changes its cites from src/pay.py#charge to none",)
    ]
    brain.revise.approve(proposal.memory.id, reason="I looked")
    assert in_review(brain) == []


def test_pages_of_the_queue_have_each_memory_once(brain: Brain, root: Path) -> None:
    support = remembered(brain, "The gateway is run by the bank")
    ids = {remembered(brain, f"{TEXT} {n} times", cites=["src/pay.py#charge"]) for n in range(3)}
    both = brain.remember(
        "The bank charges a fee", cites=["src/pay.py:3"], depends_on=[support]
    ).items[0]
    ids.add(str(both.id))
    (root / "src" / "pay.py").unlink()
    brain.forget([support], reason="it was sold")

    seen: list[str] = []
    cursor = None
    for _ in range(4):
        page = brain.review("needs_review", limit=1, cursor=cursor)
        seen += [one.memory.id for one in page.needs_review]
        cursor = page.next
    assert cursor is None
    assert set(seen) == ids
    assert len(seen) == 4


def test_pages_reach_all_missing_code_when_time_runs_out(brain: Brain, root: Path) -> None:
    ids: set[str] = set()
    pages = [brain.review(limit=100)]
    # A fast machine checks more of them in the time that there is.
    while not pages[0].next and len(ids) < 100:
        for module in range(len(ids), len(ids) + 10):
            file = root / "src" / f"m{module}.py"
            file.write_text("".join(f"x_{module}_{n} = call({n}, y{n})\n" for n in range(30_000)))
            ids.add(remembered(brain, f"Module {module} is odd", cites=[f"src/m{module}.py:10-14"]))
            file.write_text("".join(f"z_{module}_{n} = load({n}, w{n})\n" for n in range(30_000)))
        pages = [brain.review(limit=100)]
    while pages[-1].next and len(pages) < len(ids):
        pages.append(brain.review(limit=100, cursor=pages[-1].next))

    assert sorted(one.memory.id for page in pages for one in page.needs_review) == sorted(ids)
    assert len(pages) > 1
    assert [bool(page.degraded) for page in pages] == [page.next is not None for page in pages]
    assert [page.more for page in pages] == [0] * len(pages)
    lines = render_review_queue(pages[0]).splitlines()
    assert lines[-2:] == [
        "Skipped: not all cited code was checked in time; the next page goes on",
        f"Perhaps more: --cursor {pages[0].next}",
    ]


def test_nothing_is_checked_once_time_is_over(root: Path) -> None:
    tree = WorkingTree.above(str(root), search_s=0)
    assert tree is not None
    [place] = places_in("src/pay.py:3")
    seen = cite(WorkingTree(repository=tree.repository), place)
    assert seen is not None
    assert CitedCode(tree).check(seen, at=Checkout()).status is None


def test_only_a_recorded_cause_has_a_time(brain: Brain, root: Path) -> None:
    remembered(brain, TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").unlink()
    queue = brain.review("needs_review")
    assert [one.since for one in queue.needs_review] == [None]
    assert render_review_queue(queue).startswith("cites code that is gone: src/pay.py#charge\n")


def test_confirmation_is_undone_with_what_the_memory_cites(brain: Brain, root: Path) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").unlink()
    other = brain.acting_as(agent="carol", contact=ClientInfo(cwd=str(root)), project="shop")
    other.revise.review(id_, reason="it still holds")
    assert brain.get(id_).cites == ()

    other.undo(agent="carol", reason="it does not", confirm=1)

    assert [one.line() for one in brain.get(id_).cites] == ["src/pay.py#charge (gone)"]
    assert in_review(brain) != []


def test_code_of_another_branch_or_partly_there_is_not_offered(brain: Brain, root: Path) -> None:
    remembered(brain, "Both send money", cites=["src/pay.py#charge", "src/pay.py#refund"])
    edit(root, PAY[PAY.index("def charge") : PAY.index("def refund")], "")
    assert in_review(brain) == []

    (root / "src" / "pay.py").write_text(PAY)
    checkout(root, "feature")
    remembered(brain, TEXT, cites=["src/pay.py#charge"])
    checkout(root, "main")
    (root / "src" / "pay.py").unlink()
    (root / "src" / "other.py").write_text(PAY[PAY.index("def refund") :])
    assert in_review(brain) == []


def test_code_of_another_repository_is_neither_offered_nor_removed(
    brain: Brain, tmp_path: Path
) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    other = a_repository(tmp_path / "other" / "shop", path="src/sell.py", text="x = 1\n")
    for folder in (tmp_path, other):
        elsewhere = brain.acting_as(contact=ClientInfo(cwd=str(folder)), project="shop")
        assert in_review(elsewhere) == []
        assert cites_of(elsewhere) == ["src/pay.py#charge"]

        assert elsewhere.revise.review(id_, reason="it holds").changed == ()
        assert cites_of(brain) == ["src/pay.py#charge"]


def test_code_is_offered_where_its_file_was_tracked_once(brain: Brain, tmp_path: Path) -> None:
    remembered(brain, TEXT, cites=["src/pay.py#charge"])
    # Its commit is lost, as when a branch is squashed.
    copy = a_repository(tmp_path / "copy" / "shop", path="src/pay.py", text=f"{PAY}\n")
    git(copy, "rm", "src/pay.py")
    git(copy, "commit", "-m", "Sell nothing")
    there = brain.acting_as(contact=ClientInfo(cwd=str(copy)), project="shop")
    assert len(in_review(there)) == 1


def test_code_that_a_sparse_checkout_leaves_out_is_not_missing(brain: Brain, root: Path) -> None:
    remembered(brain, TEXT, cites=["src/pay.py#charge"])
    git(root, "sparse-checkout", "set", "docs")
    assert not (root / "src" / "pay.py").exists()
    assert in_review(brain) == []
    assert cites_of(brain) == ["src/pay.py#charge"]

    git(root, "sparse-checkout", "disable")
    (root / "src" / "pay.py").unlink()
    assert len(in_review(brain)) == 1


def test_newer_text_cites_other_code_in_place_of_what_is_missing(brain: Brain, root: Path) -> None:
    id_ = remembered(brain, TEXT, cites=["src/pay.py#charge"])
    (root / "src" / "pay.py").rename(root / "src" / "refunds.py")
    edit_file = root / "src" / "refunds.py"
    edit_file.write_text("def pay(card):\n    return gateway.pay(card)\n")

    newer = brain.revise.supersede(id_, f"{TEXT} and the bank asks for it", reason="the law")

    assert brain.get(newer.id or "").cites == ()
    assert in_review(brain) == []


def test_get_shows_what_became_of_cited_code(brain: Brain, root: Path, tmp_path: Path) -> None:
    id_ = remembered(brain, f"{TEXT}, see src/pay.py:3", cites=["src/pay.py#charge"])
    edit(root, "RETRIES = 3\n", "PAUSE = 1\nRETRIES = 3\n")

    lines = [one.line() for one in brain.get(id_).cites]
    assert lines == ["src/pay.py#charge (moved to 8)", "src/pay.py:3 (moved to 4)"]
    elsewhere = brain.acting_as(contact=ClientInfo(cwd=str(tmp_path)))
    assert [one.line() for one in elsewhere.get(id_).cites] == ["src/pay.py#charge", "src/pay.py:3"]
    brain.forget([id_], reason="no use")
    assert brain.get(id_).cites == ()


def test_named_place_that_is_there_counts_among_what_is_left(brain: Brain, root: Path) -> None:
    text = "Refunds stand in src/pay.py:15 now"
    remembered(brain, text, cites=["src/pay.py#charge"])
    remembered(brain, "Refunds stand in the ledger now")
    edit(root, PAY[PAY.index("def charge") : PAY.index("def refund")], "\n" * 8)

    first = brain.recall(text).items[0]
    assert first.headline == text
