"""Measurements: `make bench`. Never part of the tests; every timed request asserts what it answers."""
