"""Turns under stress: real programs, cancels, capture limits, publication, lost transactions, many at once."""
