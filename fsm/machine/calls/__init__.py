"""Semantics of calls in progress, shared by all engines.

- :mod:`~fsm.machine.calls.configuration`: states together with the calls in progress
- :mod:`~fsm.machine.calls.rules`: how calls proceed and which replies fit
- :mod:`~fsm.machine.calls.unobserved`: what may happen between observations
- :mod:`~fsm.machine.calls.covering`: which configurations are redundant
- :mod:`~fsm.machine.calls.belief` and :mod:`~fsm.machine.calls.held`: the effect of an observation or a test step
- :mod:`~fsm.machine.calls.endings`: how a whole call may end
"""
