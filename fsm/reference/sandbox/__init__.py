"""containerd's own sandbox controller: a record of each pod, its pause process, and those who wait for its end.

:mod:`~fsm.reference.sandbox.controller` is the controller, driven by the
machine ``sandbox-controller``; :mod:`~fsm.reference.sandbox.world` what it
asks of those who run pods, :mod:`~fsm.reference.sandbox.processes` such a
world of processes of this machine, and
:mod:`~fsm.reference.sandbox.upstream` what containerd does otherwise.
"""
