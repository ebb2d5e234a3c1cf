"""Diagrams of lifecycles: read from text, drawn from machines, and compared with each other."""
