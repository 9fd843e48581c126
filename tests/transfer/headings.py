"""Headings of notes by the type that they announce, with a line that is below each."""

from collections.abc import Mapping, Sequence
from typing import Final

HEADINGS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "rule": [
        ("Rules", "The crane operator signs the log each morning."),
        ("House rules:", "Dogs stay outside of the workshop."),
        ("Guardrails for agents", "A human looks at each migration."),
        ("Non-negotiables", "Backups run before each deploy."),
        ("Constraints", "The image has at most 200 MB."),
        ("Never", "Force-push to the main branch."),
    ],
    "convention": [
        ("Conventions", "Tables have plural names."),
        ("Code style (Python)", "Absolute imports in every module."),
        ("Naming", "Branches begin with the ticket."),
        ("Coding standards", "Each module has a docstring."),
        ("Konventionen", "Spalten stehen im Singular."),
    ],
    "preference": [
        ("Preferences", "Short answers, code first."),
        ("My preferences", "Dark roast and no sugar in it."),
        ("How I like to work", "Long mornings without a call."),
    ],
    "task": [
        ("TODO", "The gutters of the north hall."),
        ("To-do", "New filters for the pump room."),
        ("Next steps", "A letter to the harbour office."),
        ("Action items from Monday", "Marlon and the test lab."),
        ("Backlog", "Dark mode for the booking page."),
        ("Aufgaben", "Die Filter der Pumpe bestellen."),
    ],
    "question": [
        ("Open questions", "Which team owns the mobile keys?"),
        ("Questions", "Is the limit per request or per session?"),
        ("Still unclear", "Who pays for the second crane?"),
        ("Unresolved questions", "Do we need the old index at all?"),
        ("Offene Fragen", "Wie lange bleiben die Protokolle liegen?"),
    ],
    "incident": [
        ("Incidents", "The ferry missed two berths in one night."),
        ("Outages in 2025", "The gateway was down for two hours."),
        ("Postmortems", "A lock on the orders table at noon."),
        ("What went wrong in January", "The pump ran dry for a day."),
    ],
    "bug": [
        ("Scoring bug", "Ties are counted twice in the table."),
        ("Known bugs", "The date picker jumps a day in Lima."),
        ("Known issues", "Umlauts in a file name end the upload."),
        ("Bugs:", "A refund runs twice if it is cancelled."),
    ],
    "decision": [
        ("Decisions", "Postgres instead of MariaDB."),
        ("Decision log for 2025", "One page for the checkout."),
        ("What we agreed on", "Vite instead of Webpack."),
        ("Entscheidungen", "Wir bleiben bei einer Seite."),
    ],
    "architecture": [
        ("Architecture", "The gateway talks to services over gRPC."),
        ("Architecture of the till", "The till writes to a queue first."),
        ("Tech stack", "Django, Postgres and a little Rust."),
        ("System design", "One writer and many readers."),
    ],
    "plan": [
        ("Plan", "Alpha in May, beta in July."),
        ("Plan for the rewrite", "First the login, then the basket."),
        ("Roadmap 2026", "Two pilots in spring, all in autumn."),
        ("Milestones", "Ten pilot users in May."),
    ],
    "research": [
        ("Research", "zstd at level 3 is twice as fast as gzip."),
        ("Research findings", "Two of three rivals sell by the year."),
        ("Benchmarks", "HyDE raised recall from .61 to .68."),
        ("Analysis of the March data", "Most visits come on a Sunday."),
    ],
    "fact": [
        ("Rules engine", "The claims team maintains it."),
        ("Bug bounty programme", "The contact is security@harbour.example."),
        ("Task force members", "Irina, Paul and Ochieng."),
        ("Architecture museum", "A ticket costs nine euros."),
        ("Incident Street", "The office is at number 14."),
        ("Frequently asked questions", "The office opens at nine."),
        ("Pricing plans", "Basic costs nine euros a month."),
        ("Decisions and open questions", "The lease of the hall ends in March."),
        ("Planning poker", "The cards are in the left drawer."),
        ("Notes", "The office is on the third floor."),
        ("Berlin", "The warehouse has two gates."),
    ],
}
"""`fact` stands for headings that announce nothing; the line below is a fact by its words."""
