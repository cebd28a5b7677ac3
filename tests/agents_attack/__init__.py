"""Attacks on the Agents API that once got through, each named by what holds now."""
