"""Reads the working tree of a repository, whose files may be hostile, and what Git notes of it.

A Git process, which takes longer than the rest, is started only to learn whether a branch was
merged, and whether missing code was ever here.
Only regular files within bounds are read, none through a link that leads out of the root. What is
not as Git writes it counts as unknown. Imports must be fast: hooks use it at every prompt.
"""

import os
import stat
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final, Self

from commonbrain.model.values import dataclass, field
from commonbrain.text.patterns import lazy_pattern

if TYPE_CHECKING:
    import subprocess

DEPTH_MAX: Final = 64
FILE_BYTES_MAX: Final = 1_000_000
"""Larger files are data, or made by programs."""
_LINE_BYTES_MAX: Final = 4096
_REFS_BYTES_MAX: Final = 4_000_000
"""Packed refs of 50,000 branches and tags."""
_ENTRIES_MAX: Final = 20_000
"""Files and folders among which a file that was renamed is looked for."""
_CANDIDATES_MAX: Final = 1000
_COMMIT_CHARS: Final = 12
_BRANCHES_MAX: Final = 3
"""Branches of one recall that Git is asked about, 4 ms each."""
_BRANCHES_KNOWN: Final = 256
_GIT_S: Final = 0.3
_POINTER: Final = "gitdir:"
_BRANCHES: Final = "refs/heads/"
_HASH: Final = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ABBREVIATED: Final = lazy_pattern(rf"[0-9a-f]{{{_COMMIT_CHARS}}}")
_SPARSE: Final = lazy_pattern(r"(?im)^\s*sparsecheckout\s*(=\s*(true|yes|on|1)\s*)?$")
"""The setting without which Git ignores the patterns of a sparse checkout."""
_REF: Final = lazy_pattern(r"ref: (refs/[^\s\\:?*\[^~]{1,250})")
_MADE: Final = frozenset(
    "node_modules target dist build out vendor venv env __pycache__ site-packages".split()
)
"""Folders of what programs made or fetched."""
_OPEN: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""A FIFO does not block, and a link at the end of a path is not followed."""


def read_file(path: Path | str, *, bytes_max: int, is_head: bool = False) -> bytes | None:
    """Return the content of a regular file; None for another one, or for one that is too large.

    Args:
        path: the file; a link is not followed.
        bytes_max: the largest size.
        is_head: whether of a larger file the beginning is enough.

    """
    try:
        opened = os.open(path, _OPEN)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode) or (status.st_size > bytes_max and not is_head):
            return None
        return os.read(opened, bytes_max)
    except OSError:
        return None
    finally:
        os.close(opened)


def _first_line(path: Path) -> str:
    raw = read_file(path, bytes_max=_LINE_BYTES_MAX, is_head=True) or b""
    return raw.decode(errors="replace").split("\n", 1)[0].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The root of a working tree, and the folders in which Git keeps what it knows of it."""

    root: Path
    git: Path
    """The folder of this working tree."""
    common: Path
    """The folder that all working trees of the repository share."""

    @classmethod
    def at(cls, root: Path) -> Self | None:
        """Return the repository whose working tree begins at a folder; None if none does."""
        mark = root / ".git"
        if mark.is_dir():
            return cls(root=root, git=mark, common=mark)
        if not mark.is_file():
            return None
        git = _pointed(mark, _first_line(mark).removeprefix(_POINTER).strip())
        if git is None or not _first_line(git / "HEAD"):
            return cls(root=root, git=mark, common=mark)
        common = _pointed(git / "commondir", _first_line(git / "commondir"))
        # Git notes both ways; a file that came with the folder alone makes it no worktree.
        if common is None or _pointed(git / "gitdir", _first_line(git / "gitdir")) != mark:
            common = git
        return cls(root=root, git=git, common=common)

    @classmethod
    def above(cls, folder: Path) -> Self | None:
        """Return the repository that a folder belongs to; None if it belongs to none."""
        for one in [folder, *folder.parents][:DEPTH_MAX]:
            with suppress(OSError, ValueError):
                if (match := cls.at(one)) is not None:
                    return match
        return None

    @property
    def name(self) -> str:
        """The name of the main working tree, or of a submodule or bare repository."""
        if self.common in {self.root / ".git", self.git} and self.git == self.common:
            return self.root.name
        own = self.common.name
        return self.common.parent.name if own == ".git" else own.removesuffix(".git")

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None on none."""
        match = _REF.fullmatch(_first_line(self.git / "HEAD"))
        ref = match[1] if match else ""
        return ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else None

    @property
    def commit(self) -> str | None:
        """The first digits of the commit that is checked out; None before the first one."""
        head = self._head()
        return head and head[:_COMMIT_CHARS]

    @property
    def is_sparse(self) -> bool:
        """Whether files that are tracked may be left out of the working tree."""
        if not (self.git / "info" / "sparse-checkout").is_file():
            return False
        settings = (self.common / "config", self.git / "config.worktree")
        texts = (read_file(one, bytes_max=FILE_BYTES_MAX) or b"" for one in settings)
        return any(_SPARSE.search(one.decode(errors="replace")) for one in texts)

    def knows(self, commit: str | None, paths: Sequence[str]) -> bool:
        """Return whether it has a commit, or once tracked one of some files.

        Another repository may have its name. Git is asked unless the commit is checked out.
        """
        if commit == self.commit:
            return True
        if commit and _ABBREVIATED.fullmatch(commit):
            known = _git(self.root, "cat-file", "-e", f"{commit}^{{commit}}")
            if known and known.returncode == 0:
                return True
        tracked = _git(self.root, "rev-list", "--all", "--max-count=1", "--", *paths)
        return bool(tracked and tracked.returncode == 0 and tracked.stdout)

    def is_unmerged(self, branch: str) -> bool:
        """Return whether a branch that others do not begin from has commits that HEAD lacks."""
        tip, head = self._resolve(f"{_BRANCHES}{branch}"), self._head()
        is_other = branch not in {self.branch, self.default_branch}
        if not is_other or tip is None or head is None or tip == head:
            return False
        return _is_ancestor(self.root, tip, of=head) is False

    def _head(self) -> str | None:
        """Return the commit that is checked out; None before the first one."""
        head = _first_line(self.git / "HEAD")
        match = _REF.fullmatch(head)
        full = self._resolve(match[1]) if match else head
        return full if full and _HASH.fullmatch(full) else None

    def has_branch(self, name: str) -> bool:
        """Return whether there is a local branch of a name."""
        return self._resolve(f"{_BRANCHES}{name}") is not None

    @property
    def default_branch(self) -> str | None:
        """The branch that others begin from: that of the origin, or main or master."""
        origin = "refs/remotes/origin/"
        match = _REF.fullmatch(_first_line(self.common / origin / "HEAD"))
        if match and match[1].startswith(origin):
            return match[1].removeprefix(origin)
        return next(filter(self.has_branch, ("main", "master", "trunk")), None)

    def _resolve(self, ref: str) -> str | None:
        """Return the commit of a ref; None if there is none."""
        if ".." in ref or not _REF.fullmatch(f"ref: {ref}"):
            return None
        loose = _first_line(self.common / ref)
        if _HASH.fullmatch(loose):
            return loose
        packed = read_file(self.common / "packed-refs", bytes_max=_REFS_BYTES_MAX) or b""
        at = packed.find(b" " + ref.encode(errors="replace") + b"\n")
        begin = packed.rfind(b"\n", 0, at) + 1
        return packed[begin:at].decode(errors="replace") if at > 0 else None


@lru_cache(_BRANCHES_KNOWN)
def _is_ancestor(root: Path, commit: str, *, of: str) -> bool | None:
    """Return whether a commit is in the history of another; None if Git does not say."""
    done = _git(root, "merge-base", "--is-ancestor", commit, of)
    return {0: True, 1: False}.get(done.returncode) if done else None


def _git(root: Path, *words: str) -> "subprocess.CompletedProcess[bytes] | None":
    """Run Git in a working tree; None if that is not possible or takes too long."""
    if sys.platform == "win32":
        # It would take a git.exe of the working tree before that of the user.
        return None
    # Few callers have branches that differ.
    import subprocess  # noqa: PLC0415

    # In a hook of Git, variables name another repository.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Settings of the repository must not make Git fetch, which runs programs that they name.
    environment = own | {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    line = ["git", "--literal-pathspecs", "-C", str(root), *words]
    try:
        return subprocess.run(  # noqa: S603 hashes, and paths after "--"
            line, env=environment, timeout=_GIT_S, check=False, capture_output=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _pointed(file: Path, target: str) -> Path | None:
    """Return the absolute path that a file of Git names, relative to its folder."""
    if not target or "\0" in target:
        return None
    return Path(os.path.normpath(file.parent / target))


@dataclass(slots=True, kw_only=True)
class WorkingTree:
    """Reads files of one working tree, each once, until its time is over."""

    repository: Repository
    until_s: float = float("inf")
    """When to stop checking, in processor time of the thread."""
    is_partial: bool = False
    """Whether files are left out: of a sparse checkout or a large tree, or as time was over."""
    _real_root: str = ""
    _texts: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _listed: "list[str] | None" = None
    _unmerged: dict[str, bool] = field(default_factory=dict[str, bool])

    @classmethod
    def above(cls, folder: str | None, *, search_s: float = float("inf")) -> Self | None:
        """Return the working tree of a folder; None if it is in none.

        Args:
            folder: an absolute path.
            search_s: the processor time to check in, in seconds, with the time that Git takes.

        """
        if not folder or not Path(folder).is_absolute():
            return None
        repository = Repository.above(Path(folder))
        if repository is None:
            return None
        until_s = thread_time() + search_s
        return cls(repository=repository, until_s=until_s, is_partial=repository.is_sparse)

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return thread_time() >= self.until_s

    @property
    def root(self) -> Path:
        """The folder that paths are relative to."""
        return self.repository.root

    def relative(self, path: str, *, folder: Path) -> str | None:
        """Return a path relative to the root; None for one outside of it.

        Args:
            path: as it is written: relative to the root or to the folder, or absolute.
            folder: the folder of the caller.

        """
        for base in (self.root, folder):
            place = Path(os.path.normpath(base / path))
            if place.is_relative_to(self.root) and os.path.isfile(place):  # noqa: PTH113 it raises for no name
                return place.relative_to(self.root).as_posix()
        return None

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if there is none, or none that may be read."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        try:
            root = self._real_root = self._real_root or os.path.realpath(self.root)
            place = os.path.realpath(f"{self.root}/{path}")
        # A name that is too long or that has a zero byte.
        except (OSError, ValueError):
            return None
        is_inside = place.startswith(f"{root}{os.sep}")
        raw = read_file(place, bytes_max=FILE_BYTES_MAX) if is_inside else None
        if raw is None or b"\0" in raw:
            return None
        return raw.replace(b"\r\n", b"\n").decode("utf-8", "replace")

    def is_unmerged(self, branch: str) -> bool:
        """Return whether a branch is still there, and Git has it merged nowhere here.

        That is what `git branch --no-merged` lists. False if it cannot be known.
        """
        if branch not in self._unmerged:
            self._unmerged[branch] = len(self._unmerged) < _BRANCHES_MAX and (
                self.repository.is_unmerged(branch)
            )
        return self._unmerged[branch]

    def knows(self, commit: str | None, paths: Sequence[str]) -> bool:
        """Return whether code was seen in this repository, as far as Git knows."""
        began_s = monotonic()
        is_known = self.repository.knows(commit, paths)
        # Git takes no processor time of this thread.
        self.until_s -= monotonic() - began_s
        return is_known

    def others(self, path: str, *, has_name: bool) -> Iterator[str]:
        """Yield files of the same sort as one, those of its name first, while there is time.

        Args:
            path: the file.
            has_name: whether to yield only those of its name.

        """
        name, suffix = path.rpartition("/")[2], Path(path).suffix
        alike = [one for one in self._files() if one.endswith(suffix or name) and one != path]
        named = [one for one in alike if one.rpartition("/")[2] == name]
        rest = [] if has_name else [one for one in alike if one not in set(named)]
        rest.sort(key=lambda one: not _is_near(one, path))
        for at, one in enumerate([*named, *rest]):
            if self.is_late or at == _CANDIDATES_MAX:
                self.is_partial = True
                return
            yield one

    def _files(self) -> list[str]:
        if self._listed is None:
            self._listed = list(self._walk())
        return self._listed

    def _walk(self) -> Iterator[str]:
        """Yield the files of the tree, those near the root first."""
        folders = deque([""])
        left = _ENTRIES_MAX
        while folders and left > 0 and not self.is_late:
            folder = folders.popleft()
            with suppress(OSError), os.scandir(self.root / folder) as entries:
                for entry in entries:
                    left -= 1
                    # A reply can say no other name.
                    if not entry.name.isprintable():
                        continue
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        if not entry.name.startswith(".") and entry.name not in _MADE:
                            folders.append(f"{path}/")
                    elif entry.is_file(follow_symlinks=False):
                        yield path
                    if left <= 0:
                        break
        self.is_partial = self.is_partial or bool(folders) or left <= 0


def _is_near(one: str, other: str) -> bool:
    """Return whether two files are in one folder, or one below that of the other."""
    ours, theirs = (path.rpartition("/")[0] for path in (one, other))
    return ours.startswith(theirs) or theirs.startswith(ours)
