"""Tests; a package, so that helper modules beside them can be imported."""
