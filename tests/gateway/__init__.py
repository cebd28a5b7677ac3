"""The front doors of AWS on a loopback port, and the events that they make."""
