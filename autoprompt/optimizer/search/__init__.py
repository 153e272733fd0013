"""Choosing: the pool of candidates, the race between them, the gate at the end. Knows no model, no graph."""
