"""The port "run a program", its wire models and its adapters."""
