"""A second opinion on every engine, written from the documentation: slow, simple, and sharing no line with them.

It takes machines, systems and claims as they are written, and enumerates configurations, steps and instants:
:mod:`.steps` has what may happen, :mod:`.conditions` what an instant satisfies, :mod:`.claims` what is decided of it.
"""
