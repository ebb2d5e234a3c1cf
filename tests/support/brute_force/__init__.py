"""A slow and simple second opinion on every engine.

It is written from the documentation, and shares no code with the engines. It takes machines, systems and claims in
their written form, and enumerates configurations, steps and instants: :mod:`.steps` lists the possible steps,
:mod:`.conditions` evaluates conditions, and :mod:`.claims` decides claims.
"""
