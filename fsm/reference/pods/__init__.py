"""Pods as the CRI service has them: a name, metadata on disk, a network, a pause process, and one record of each.

:mod:`~fsm.reference.pods.service` is the calls on pods, driven by the machine
``pod-sandbox``; :mod:`~fsm.reference.pods.pod` one pod,
:mod:`~fsm.reference.pods.stages` what a run makes, and takes back, in order.
:mod:`~fsm.reference.pods.names`, :mod:`~fsm.reference.pods.metadata`,
:mod:`~fsm.reference.pods.network` and :mod:`~fsm.reference.pods.containers`
are what a pod holds, and :mod:`~fsm.reference.pods.upstream` is what
containerd does otherwise.
"""
