"""Environments and their files: reading, the write's attempt with every answer lost, and an operator's word."""
