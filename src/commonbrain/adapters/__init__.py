"""The outside world behind the ports; nothing above wiring imports it."""
