"""Reading what a model answered: a label, a number or JSON out of more or less text, behind its reasoning."""
