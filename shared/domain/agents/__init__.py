"""Pure rules of the Agents API (contract agents.md): no I/O, no clock, no randomness."""
