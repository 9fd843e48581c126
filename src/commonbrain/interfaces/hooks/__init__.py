"""The door that clients open by themselves: `brain hook CLIENT EVENT`, told on stdin."""
