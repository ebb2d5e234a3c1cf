"""Lifecycle diagrams: read from text, drawn from machines, and compared with each other."""
