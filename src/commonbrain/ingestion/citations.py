"""The code that a new memory cites, as it stands in the working tree of its author."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model.citations import (
    CHECKOUT,
    CITATIONS,
    Checkout,
    Citation,
    CodePlace,
    parse_place,
    places_in,
    stored_checkout,
    stored_citations,
)
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import CITATIONS_MAX, NAME_CHARS_MAX
from commonbrain.model.values import replace
from commonbrain.text.code_regions import Region, SourceText
from commonbrain.working_tree import WorkingTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from commonbrain.ingestion.validation import Rejection
    from commonbrain.model.scope import Caller
    from commonbrain.security.secrets import SecretScanner

_NAMED_MAX: Final = 32
"""Places in a text that are looked up; most texts name none."""


def cite(tree: WorkingTree, place: CodePlace) -> Citation | None:
    """Describe what stands at a place; None if the tree does not have it."""
    text = tree.read(place.path)
    if text is None:
        return None
    source = SourceText(text, is_python=place.path.endswith((".py", ".pyi")))
    region = source.region_of(place)
    seen = None if region is None else source.fingerprint(region)
    return None if seen is None else Citation(place=place, seen=seen)


_SECRET_FILE: Final = re.compile(r"(?:^|/)\.env[^/]*$|\.(?:pem|key|p12|pfx)$")


@dataclass(frozen=True)
class CitingAuthor:
    """Reads the code that drafts of a caller cite, in its working tree."""

    caller: Caller
    scanner: SecretScanner

    @cached_property
    def _tree(self) -> WorkingTree | None:
        return WorkingTree.above(self.caller.local_folder)

    def cite_code(
        self, prepared: PreparedDraft | Rejection, *, replaces: Mapping[str, object] | None = None
    ) -> PreparedDraft | Rejection:
        """Return a draft with the code that it cites, and a warning for what is not there.

        Args:
            prepared: the draft.
            replaces: the payload of the memory that it replaces, which says what it cites if the
                draft cites nothing.

        Raises:
            InvalidInputError: `cites` has something else than a place in code.

        """
        if not isinstance(prepared, PreparedDraft):
            return prepared
        given = {place: self._cite(place) for place in map(_parsed, prepared.draft.cites)}
        is_direct = prepared.draft.imported_from is None
        named = self._named_in(prepared.draft.body) if is_direct else ()
        citations = dict.fromkeys([*given.values(), *islice(named, CITATIONS_MAX)])
        missing = [str(place) for place, one in given.items() if one.seen is None]
        warning = f"{', '.join(missing)} cannot be read here, so it is not checked later."
        seen: dict[str, object] = {
            CITATIONS: stored_citations(tuple(citations)[:CITATIONS_MAX]),
            CHECKOUT: self._checkout if is_direct else {},
        }
        if not citations and replaces and replaces.get(CITATIONS):
            seen = {name: replaces.get(name) for name in (CITATIONS, CHECKOUT)}
        return replace(
            prepared,
            seen={name: value for name, value in seen.items() if value},
            warnings=prepared.warnings + ((warning,) if missing else ()),
        )

    @cached_property
    def _checkout(self) -> dict[str, str]:
        if self._tree is None:
            return {}
        repository = self._tree.repository
        branch = repository.branch
        if branch and (not branch.isprintable() or self.scanner.find(branch)):
            branch = None
        name = repository.name[:NAME_CHARS_MAX]
        if not name.isprintable():
            return {}
        return stored_checkout(Checkout(repository=name, branch=branch, commit=repository.commit))

    def _named_in(self, text: str) -> Iterator[Citation]:
        """Cite the code that a text names by file and line, if the tree has it."""
        if self._tree is not None:
            for place in islice(places_in(text), _NAMED_MAX):
                citation = self._cite(place)
                if citation.seen is not None:
                    yield citation

    def _cite(self, place: CodePlace) -> Citation:
        """Cite what stands at a place, without a fingerprint if it cannot be read or is secret."""
        unseen = Citation(place=place)
        if self._tree is None:
            return unseen
        path = self._tree.relative(place.path, folder=Path(self.caller.contact.cwd or ""))
        citation = path and cite(self._tree, replace(place, path=path))
        # Of such files even digests tell something.
        if not citation or citation.seen is None or _SECRET_FILE.search(citation.place.path):
            return unseen
        text = SourceText(self._tree.read(citation.place.path) or "", is_python=False)
        code = text.cut(Region(line=citation.seen.line, lines=citation.seen.lines))
        # A short value could be guessed by its digest.
        return replace(citation, seen=None) if self.scanner.find(code) else citation


def _parsed(text: str) -> CodePlace:
    place = parse_place(text)
    if place is None:
        raise InvalidInputError(
            f"{text[:80]!r} is no place in code.",
            hint="Give path:line, path:line-line or path#symbol, such as src/pay.py:40, from the "
            "root of the repository or this folder, without `..`.",
        )
    return place
