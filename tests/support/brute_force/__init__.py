"""A slow, simple second opinion on every engine, written from the documentation without sharing code with an engine.

It takes machines, systems and claims in their written form, and enumerates configurations, steps and instants:
:mod:`.steps` lists the possible steps, :mod:`.conditions` evaluates conditions, and :mod:`.claims` decides claims.
"""
