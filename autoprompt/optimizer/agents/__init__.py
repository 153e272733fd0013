"""The agents that do the work of a round. They know nothing of the graph; each is usable alone."""
