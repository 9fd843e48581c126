"""Boot preview: what an agent reads first in a project, section by section, with its tokens."""

from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.boot import BootRequest
from commonbrain.coordination.briefing import Briefing, sections
from commonbrain.text.tokens import estimate
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import PREVIEW_BOOT, Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingSection:
    """A part of the briefing."""

    name: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BootView:
    """The briefing that an agent would get now; no session is started."""

    project: str | None
    task: str | None
    sections: tuple[BriefingSection, ...]
    tokens: int
    """Of the whole as text, which is what an agent reads."""
    tokens_max: int
    briefing: Briefing


def _load(visit: Visit) -> BootView:
    project, task = visit.text("project") or None, visit.text("task") or None
    briefing = visit.call(PREVIEW_BOOT, BootRequest(project=project, task=task))
    parts = ((name, "\n".join(lines)) for name, lines in sections(briefing))
    return BootView(
        project=briefing.project,
        task=task,
        sections=tuple(
            BriefingSection(name=name, text=text, tokens=estimate(f"{text}\n"))
            for name, text in parts
        ),
        tokens=estimate(briefing.text),
        tokens_max=visit.brain.services.briefing_limits.tokens,
        briefing=briefing,
    )


BOOT_SCREEN: Final = Screen(name="boot", path="/boot", title="Boot preview", load=_load)
