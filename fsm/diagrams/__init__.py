"""Lifecycle diagrams. They are read from text, drawn from machines, and compared with each other."""
