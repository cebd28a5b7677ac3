"""One module an operation: its input, output, errors and code, and the only home of its prose."""
