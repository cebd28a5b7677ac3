"""The `workroom` command."""
