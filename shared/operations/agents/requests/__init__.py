"""The bodies of the Agents API's requests, read in the contract's order of checks. Pure: no store, no clock, no id."""
