"""The doors and deployed functions: thin handlers over :mod:`shared.operations`."""
