"""What was done with memories, marked on the recall that showed them: what training learns from."""

from dataclasses import replace

from commonbrain.domain.ledger import Use
from commonbrain.flows.house import House
from commonbrain.ports.store import Transaction


def credit(tx: Transaction, house: House, use: Use) -> None:
    """Mark what was used on the latest recall of its session that showed it, if there was one.

    A recall that is still on its way to the store is marked when it is there.
    """
    if not use.ids:
        return
    coming = house.journal.showing(use)
    there = tuple(id_ for id_ in use.ids if id_ not in coming)
    late = (*coming, *tx.ledger.credit(replace(use, ids=there)))
    if late:
        house.journal.use(replace(use, ids=late))
