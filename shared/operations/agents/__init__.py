"""The operations of the Agents API: Sessions, Environments and their files, Turns, items, events, Artifacts."""
