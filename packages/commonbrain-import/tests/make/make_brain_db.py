"""Make the samples of brain-db with its own code, and with that of the files before it.

    git clone https://github.com/heliosarchitect/openclaw && cd openclaw && mkdir brain
    cd extensions/cortex/python
    git show 76337ab8e:./brain.py > ../../../brain/brain.py
    git show 015bdbe1c:./synapse_manager.py > ../../../brain/synapse_manager.py
    git show 015bdbe1c:./migrate.py > ../../../brain/migrate.py
    git show 768f1cac4:./stm_manager.py > ../../../brain/stm_manager.py
    git show 167884ac1:./atom_manager.py > ../../../brain/atom_manager.py
    git show 869e4cca4:./embeddings_manager.py > ../../../brain/embeddings_manager.py
    PYTHONPATH=../../../brain python .../tests/make/make_brain_db.py samples/brain-db

Made with Python 3.11, numpy 2 and requests 2, without its embedding server. It is not part of the
tests. Full-text tables are left out of the dumps.
"""

# pyright: basic, reportMissingImports=false

import json
import os
import sqlite3
import sys
from pathlib import Path
from tempfile import mkdtemp


def dump(database: Path, target: Path) -> None:
    with sqlite3.connect(database) as connection:
        for table in ("messages_fts", "stm_fts", "atoms_fts"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        target.write_text("\n".join(connection.iterdump()) + "\n", "utf-8")


def make_old_files(data: Path) -> None:
    import atom_manager  # noqa: PLC0415 it reads the folder from the environment
    import embeddings_manager  # noqa: PLC0415 it reads the folder from the environment
    import stm_manager  # noqa: PLC0415 it reads the folder from the environment
    import synapse_manager  # noqa: PLC0415 it reads the folder from the environment

    first = synapse_manager.send_message(
        "helios", "claude-code", "Deploy order", "Deploy the ingest first, then the page.", "action"
    )
    synapse_manager.send_message(
        "claude-code",
        "helios",
        "Re: Deploy order",
        "Done: ingest at 14:02, page at 14:10.",
        thread_id=first["thread_id"],
    )
    synapse_manager.send_message("helios", "all", "Freeze", "No deploys on Friday.", "urgent")
    synapse_manager.acknowledge_message(first["id"], "claude-code", "Will do, ingest goes first.")
    stm_manager.add_to_stm(
        "The quiet hours are read in UTC, not in local time.",
        categories=["config", "bug"],
        importance=2.0,
    )
    stm_manager.add_to_stm("The dashboard listens on port 9090.", category="ops")
    cause = atom_manager.create_atom(
        "the ingest worker",
        "runs out of memory",
        "batches are read twice",
        "duplicate rows appear in the report",
        source="manual",
        confidence=0.8,
        outcome_delay_seconds=60,
    )
    effect = atom_manager.create_atom(
        "duplicate rows",
        "inflate the totals",
        "the weekly report is wrong",
        "the team rolls the ingest back",
    )
    atom_manager.create_causal_link(cause, effect, "causes", 0.7)
    embeddings_manager.init_db()
    embeddings_manager.sync_from_stm()
    embeddings_manager.add_memory(
        "The backup runs at four in the morning.", source="collection", categories=["ops"]
    )
    pins = [
        {
            "content": "Never restart the trading bot while the market is open.",
            "label": "trading",
            "pinnedAt": "2026-02-10T08:00:00.000Z",
        }
    ]
    (data / "working_memory.json").write_text(json.dumps({"items": pins}, indent=2))
    known = {"ops": {"description": "Running the servers", "keywords": ["deploy", "backup"]}}
    (data / "categories.json").write_text(json.dumps({"categories": known}, indent=2))


def make_database(data: Path) -> None:
    import migrate  # noqa: PLC0415 it reads the folder from the environment
    from brain import UnifiedBrain  # noqa: PLC0415 as before

    brain = UnifiedBrain(str(data / "brain.db"))
    migrate.migrate_synapse(brain)
    migrate.migrate_stm(brain)
    migrate.migrate_embeddings(brain)
    brain.migrate_sidecars()
    sent = brain.send(
        "nova",
        "helios",
        "Gateway",
        "@insight The gateway needs a restart after a certificate change.",
    )
    brain.ack(sent["id"], "helios", "Noted for the runbook.")
    brain.send(
        "helios",
        "nova",
        "Re: Gateway",
        "Where is the certificate?",
        priority="action",
        thread_id=sent["thread_id"],
        parent_id=sent["id"],
    )
    brain.ack(brain.send("nova", "helios", "Silent", "This needs no answer.")["id"], "helios")
    task = brain.delegate_task(
        "helios",
        "nova",
        "Renew",
        "Renew the certificate of the gateway.",
        context="It ends in March.",
        expires_hours=24000.0,
    )
    brain.update_task_status(task["id"], "complete", result="Renewed until 2028.")
    cause = brain.create_atom(
        "the certificate",
        "expires",
        "the gateway refuses clients",
        "agents cannot reach the tools",
        confidence=0.9,
        source_message_id=sent["id"],
    )
    effect = brain.create_atom(
        "agents without tools", "guess", "answers get worse", "users complain"
    )
    brain.link_atoms(cause, effect, "enables", 0.6)
    brain.todo_add(
        "Write the runbook of the gateway",
        "With the certificate steps.",
        "high",
        "nova",
        ["docs"],
        "2026-03-20T12:00:00",
    )
    done = brain.todo_add("Order the new disks")
    brain.todo_update(done["id"], status="done")
    brain.pin_working_memory("gateway", "The gateway listens on port 8443.")


def main() -> None:
    target, data = Path(sys.argv[1]), Path(mkdtemp())
    os.environ["CORTEX_DATA_DIR"] = str(data)
    make_old_files(data)
    make_database(data)
    for made in data.glob("*.json"):
        (target / made.name).write_bytes(made.read_bytes())
    for database, dumped in (
        ("brain.db", "brain.sql"),
        (".atoms.db", "atoms.sql"),
        (".embeddings.db", "embeddings.sql"),
    ):
        dump(data / database, target / dumped)


if __name__ == "__main__":
    main()
