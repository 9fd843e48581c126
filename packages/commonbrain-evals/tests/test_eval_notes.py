"""Six weeks of notes are lived through as labelled, and few of them are claimed wrongly."""

from commonbrain_evals.notes import evaluate, read_notes

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_every_label_refers_to_an_earlier_note_of_its_project() -> None:
    notes = read_notes()
    assert len(notes) >= 300
    assert [note.day for note in notes] == sorted(note.day for note in notes)
    for place, note in enumerate(notes):
        assert all(older < place for older in note.changes)
        assert {notes[older].project for older in note.changes} <= {note.project}


def test_notes_are_stored_and_what_is_claimed_of_them_is_a_change() -> None:
    report = evaluate(read_notes()[:150], make_embedder(load_settings()))
    assert not report.refused
    assert report.claims
    assert all(claim.is_right for claim in report.claims)
    assert report.open_reviews <= 3
    assert {boot.project for boot in report.boots} == {"coop", "pipeline", "shop"}
    assert all(boot.rules_shown for boot in report.boots)
