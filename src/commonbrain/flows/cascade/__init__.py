"""Following up a fall: what rested on it is marked, what rests on nothing is archived."""
