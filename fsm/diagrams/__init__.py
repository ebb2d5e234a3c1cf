"""Diagrams of lifecycles: read from text, drawn from machines, compared with both."""
