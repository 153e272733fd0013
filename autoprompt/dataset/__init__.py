"""Rows from files: reading, checking, stable ids, stratified disjoint splits."""
