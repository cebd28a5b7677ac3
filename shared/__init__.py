"""What the functions have in common: operations over pure rules, with the ports handed in."""
