"""Queued runs: the queue, the function that runs them, and what announces their end."""
