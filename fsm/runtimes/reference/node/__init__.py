"""A node: the lifecycle of all its pods and containers, as a CRI client sees them.

The machines of :class:`~fsm.runtimes.reference.pods.service.Pods` and
:class:`~fsm.runtimes.reference.container.container.Container` decide which events are possible. This package combines
them, and adds names, shortened ids, images, events, error messages, and workloads: simulated ``commands``, or processes
(``workloads``).
"""
