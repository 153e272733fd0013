"""A local page over the runs: read-only, on this machine alone. Needs `autoprompt-optimizer[ui]`."""
