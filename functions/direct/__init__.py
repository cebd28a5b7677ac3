"""The door of event-driven callers: `{"operation", "credential", "input"}`."""
