"""What runs programs: the jail, the toolchains, and the runner that ties them together."""
