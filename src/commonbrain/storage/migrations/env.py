"""How Alembic runs the migrations: on the connection and in the transaction it is handed."""

from alembic import context

from commonbrain.storage.schema import activity, memories  # noqa: F401
from commonbrain.storage.schema.types import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
