"""A second opinion on every engine, written from the documentation: slow, simple, and sharing no line with them.

It takes machines, systems and claims as they are written, and enumerates configurations, steps and instants:
:mod:`.steps` lists the possible steps, :mod:`.conditions` evaluates conditions, and :mod:`.claims` decides claims.
"""
