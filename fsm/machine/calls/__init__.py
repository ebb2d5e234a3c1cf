"""The semantics of calls in progress, shared by all engines; one that knows more restricts them by named arguments.

A *configuration* is a state with the calls in progress (:mod:`~fsm.machine.calls.configuration`).  The other modules
say how one instant follows another, and which replies fit (:mod:`~fsm.machine.calls.rules`), what may happen unobserved
(:mod:`~fsm.machine.calls.unobserved`), which configurations add nothing (:mod:`~fsm.machine.calls.covering`), what an
observation leaves of a set of them (:mod:`~fsm.machine.calls.belief`), what a step of a test leaves
(:mod:`~fsm.machine.calls.held`), and how a whole call may end (:mod:`~fsm.machine.calls.endings`).
"""
