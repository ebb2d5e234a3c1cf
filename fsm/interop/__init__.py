"""Import and export machines and properties in the languages of other tools.

``promela`` is a second opinion on :mod:`fsm.checker` and shares no code with it.  SPIN decides the same claims.
"""
