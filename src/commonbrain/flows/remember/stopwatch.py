"""How long each stage of one call took, all its items together."""

from dataclasses import dataclass, field

from commonbrain.ports.clock import Clock


@dataclass(slots=True)
class Stopwatch:
    """Counts the time between laps towards the stage that a lap ends."""

    clock: Clock
    stages_ms: dict[str, float] = field(default_factory=dict[str, float])
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        """Start."""
        self._since = self.clock.elapsed_ms()

    def lap(self, stage: str) -> None:
        """Say that what was done since the last lap was this stage."""
        now = self.clock.elapsed_ms()
        self.stages_ms[stage] = round(self.stages_ms.get(stage, 0.0) + now - self._since, 3)
        self._since = now
