"""Semantics of calls in progress, shared by all engines.

- :mod:`~fsm.machine.calls.configuration`: states together with the calls in progress
- :mod:`~fsm.machine.calls.rules`: how calls proceed and which replies fit
- :mod:`~fsm.machine.calls.unobserved`: what may happen between observations
- :mod:`~fsm.machine.calls.configuration`: which configurations are redundant
- :mod:`~fsm.machine.calls.belief` and :mod:`~fsm.machine.calls.belief`: the effect of an observation or a test step
- :mod:`~fsm.machine.calls.rules`: how a whole call may end
"""
