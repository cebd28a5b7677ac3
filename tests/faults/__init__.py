"""What goes wrong between a client and a store, on purpose."""
