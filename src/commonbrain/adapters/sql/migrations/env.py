"""How Alembic runs the migrations: on the connection and in the transaction it is handed."""

from alembic import context

from commonbrain.adapters.sql import (  # noqa: F401
    access_tables,
    cascade_tables,
    coordination_tables,
    evaluation_tables,
    event_tables,
    field_tables,
    job_tables,
    ledger_tables,
    tables,
)
from commonbrain.adapters.sql.metadata import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
