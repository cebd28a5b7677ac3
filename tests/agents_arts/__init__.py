"""Turns, items and Artifacts of a Session, by contract row, on real stores."""
