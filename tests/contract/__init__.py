"""The contract suite of the storage ports: every adapter in `adapters.ADAPTERS` passes all of it."""
