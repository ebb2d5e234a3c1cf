"""Import and export machines and properties in the languages of other tools.

``promela`` exports to SPIN, which decides the same claims as :mod:`fsm.checker`.  The export serves as a second
opinion, because it shares no code with the checker.
"""
