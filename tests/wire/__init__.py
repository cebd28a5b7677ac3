"""The wire contract over a real socket."""
