"""The readers of the Agents API's request bodies, and the saved agents."""
