"""A week of a team that writes German, Spanish and Japanese: all is found, nothing is disputed."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import bodies, remember_one
from tests.hooking import call_hook
from tests.in_process import default_model
from tests.web.visitors import visitor

DAY = timedelta(days=1)
# What looks like a change, a negation, a plan or a cause in English, and is none.
DAYS = (
    (
        "Der Import von Rechnungen war am Montag bei Anna, der Export war bei Paul.",
        "La caché de Redis se llena cada noche con los precios.",
        "請求書のPDFはGotenbergで作成する。",
        "Gift des Servers: die Uhr von web-1 läuft drei Sekunden falsch.",
    ),
    (
        "Wir haben die Suche auf Typesense umgebaut.",
        "El panel de Grafana tiene una fila por equipo.",
        "決済の再試行は五回までとする。",
        "Die Tests von Anna laufen mit pytest, die von Paul mit unittest.",
    ),
    (
        "Das Limit für Uploads: 10 MB",
        "No hay que tocar el fichero nginx.conf a mano.",
        "ログインはKeycloakに任せている。",
    ),
    (
        "Das Limit für Uploads: 20 MB",
        "Los datos de prueba son de Marta, no de producción.",
        "監視はPrometheusで行う。アラートはSlackに送る。",
        "Also bald: ein Treffen mit dem Kunden in Bremen.",
    ),
    (
        "Anna hat 20 Euro für die Kasse bezahlt.",
        "Anna hat 30 Euro für die Kasse bezahlt.",
        "La reunión on-call es en la sala Sol.",
        "在庫の同期は毎朝六時に始まる。",
    ),
)
RULE = "Niemals am Freitag nach 14 Uhr deployen."
NAMES = {
    "Typesense": "Wir haben die Suche auf Typesense umgebaut.",
    "Grafana": "El panel de Grafana tiene una fila por equipo.",
    "Keycloakの設定": "ログインはKeycloakに任せている。",
    "Gotenberg": "請求書のPDFはGotenbergで作成する。",
    "Warum nginx.conf?": "No hay que tocar el fichero nginx.conf a mano.",
    "決済の再試行": "決済の再試行は五回までとする。",
    "在庫": "在庫の同期は毎朝六時に始まる。",
}


@pytest.fixture
def week(path: Path, clock: FakeClock) -> Iterator[Brain]:
    """The store at the end of the week."""
    with a_brain(path, clock=clock, embedder=default_model()) as brain:
        remember_one(brain, RULE, kind="rule", severity="BLOCKER")
        for texts in DAYS:
            for text in texts:
                result = remember_one(brain, text)
                claims = [one.id for one in (*result.changes, *result.conflicts)]
                assert len(claims) == (text == "Das Limit für Uploads: 20 MB"), text
                assert result.kind in {"fact", "event"}, text
            clock.move(DAY)
        yield brain


@pytest.mark.requirement("RT-41", "RT-44")
def test_everything_is_found_by_its_names_and_nothing_is_called_untrue(week: Brain) -> None:
    for query, text in NAMES.items():
        assert bodies(week, query)[0] == text
    reply = week.recall("Was haben wir am Dienstag umgebaut?", max_items=30)
    assert reply.items
    every = [one for day in DAYS for one in day]
    shown = week.recall("", max_items=60).items
    assert {one.body for one in shown} == {RULE, *every}
    for query in every:
        reply = week.recall(query)
        changed = {one.body for one in reply.items if one.earlier or one.notes}
        assert all(body and body.startswith("Das Limit") for body in changed), changed


@pytest.mark.requirement("RT-45")
def test_days_are_asked_for_in_the_language_of_the_team(week: Brain, clock: FakeClock) -> None:
    clock.move(-3 * DAY)
    assert bodies(week, "Was haben wir gestern umgebaut?")[0] == DAYS[1][0]
    assert DAYS[1][1] in bodies(week, "¿Qué pasó ayer?")


def test_an_agent_starts_with_the_rule_and_a_person_reads_the_notes(
    week: Brain, path: Path
) -> None:
    assert RULE in week.boot(task="Deployment vorbereiten").text
    listed = visitor(week).get("/browse").text
    assert all(text in listed for day in DAYS for text in day if not text.isascii())
    start: dict[str, object] = {"session_id": "s", "cwd": str(path.parent), "source": "startup"}
    assert RULE in call_hook(path, "claude-code", "session-start", told=start).context
    prompt = start | {"prompt": "Wo liegen die PDFs, die Gotenberg für die 請求書 macht?"}
    shown = call_hook(path, "claude-code", "user-prompt-submit", told=prompt).context
    assert "earlier" not in shown
