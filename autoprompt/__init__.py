"""Turns a labelled dataset and a naive prompt into a better prompt, with proof."""

__version__ = "0.1.0"
