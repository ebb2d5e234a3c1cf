"""Machines and properties in the languages of other tools.

``promela`` is a second opinion on :mod:`fsm.checker`, from which it takes nothing: SPIN decides the same claims.
"""
