"""Semantics of calls in progress, shared by all engines.

- :mod:`~fsm.machine.calls.configuration`: states together with the calls in progress, and which of them are redundant
- :mod:`~fsm.machine.calls.rules`: how calls proceed, which replies fit, and how a whole call may end
- :mod:`~fsm.machine.calls.unobserved`: what may happen between observations
- :mod:`~fsm.machine.calls.belief`: the effect of an observation or a test step
"""
