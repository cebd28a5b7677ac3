"""The state and object ports and their adapters."""
