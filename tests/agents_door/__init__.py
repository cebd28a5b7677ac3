"""The door of the Agents API: queries, streams, the bytes of an Artifact."""
