"""The HTTP door of the Agents API (agents.md): its addresses, order of checks, bodies, queries, lists and routes."""
