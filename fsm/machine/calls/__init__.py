"""What may happen with calls in progress: the one semantics of every engine.

A *configuration* is a state together with the calls in progress (:mod:`~fsm.machine.calls.configuration`).  How one
instant follows another, and which replies fit, stands in :mod:`~fsm.machine.calls.rules`; what may happen unobserved, in
:mod:`~fsm.machine.calls.unobserved`; which configurations add nothing, in :mod:`~fsm.machine.calls.covering`; what an observation leaves of a set of configurations, in
:mod:`~fsm.machine.calls.belief`; what a step of a test leaves, in :mod:`~fsm.machine.calls.held`; how a whole call may
end, in :mod:`~fsm.machine.calls.endings`.  An engine that knows more than a monitor restricts these by a named argument.
"""
