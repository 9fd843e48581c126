"""Background jobs: registry, worker, scheduler and handlers."""
