"""Machines and properties in the languages of other tools.

``promela`` is a second opinion on :mod:`fsm.checker` and uses nothing of it: SPIN decides the same claims.
"""
