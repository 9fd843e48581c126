"""A server under the load of hundreds of agents, and what becomes of it when something breaks."""
