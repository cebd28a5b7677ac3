"""The scheduled sweep: expired sessions, orphaned objects, finished records."""
