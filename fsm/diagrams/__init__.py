"""Lifecycle diagrams: reading them from text, drawing them from machines, and comparing them."""
