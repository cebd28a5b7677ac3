"""The runner: restores a workspace, runs one program in the jail, collects what it left. Stdlib only."""
