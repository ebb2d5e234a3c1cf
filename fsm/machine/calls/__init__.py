"""The semantics of calls in progress, shared by all engines.

A *configuration* is a state together with the calls in progress (:mod:`~fsm.machine.calls.configuration`).  The
modules:

- :mod:`~fsm.machine.calls.rules`: how one instant follows another, and which replies fit;
- :mod:`~fsm.machine.calls.unobserved`: what may happen unobserved;
- :mod:`~fsm.machine.calls.covering`: which configurations add nothing;
- :mod:`~fsm.machine.calls.belief`: what an observation leaves of a set of configurations;
- :mod:`~fsm.machine.calls.held`: what a step of a test leaves;
- :mod:`~fsm.machine.calls.endings`: how a whole call may end.

An engine that knows more than a monitor restricts these with a named argument.
"""
