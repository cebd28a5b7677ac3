"""Pure rules. No input or output, no clock, no import from the rest of the project."""
