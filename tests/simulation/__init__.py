"""A simulation of a store by seed: agents, crashes, full disks and clocks, drawn by one number."""
