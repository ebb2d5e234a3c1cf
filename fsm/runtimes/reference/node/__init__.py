"""A node: the lifecycle of all its pods and containers, as a client of the CRI sees them.

What may happen is decided by the machines of :class:`~fsm.runtimes.reference.pods.service.Pods` and
:class:`~fsm.runtimes.reference.container.container.Container`, which this joins; added are names, shortened ids, images, events,
the words of errors, and what runs: simulated ``commands``, or processes (``workloads``).
"""
