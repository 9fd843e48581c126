"""How Alembic runs the migrations: on the connection and in the transaction it is handed."""

from typing import Any

from alembic import context

from commonbrain.storage.schema import activity, memories  # noqa: F401
from commonbrain.storage.schema.types import METADATA


def run_statements_of_engine(*, ctx: Any, step: Any, **_: object) -> None:  # noqa: ANN401 Alembic's
    """Run what the engine adds to a migration."""
    for statement in attributes["engine"].statements.get(step.up_revision_id, ()):
        ctx.connection.exec_driver_sql(statement)


attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=False,
    on_version_apply=run_statements_of_engine,
)
with context.begin_transaction():
    context.run_migrations()
