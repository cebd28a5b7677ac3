"""The scheduled function that removes what is over."""
