"""containerd's own sandbox controller: a record of each pod, its pause process, and waiting for its exit.

``controller`` is driven by the machine ``sandbox-controller``, and
``upstream`` is what containerd does instead where that is wrong.
``processes`` is the world of a sandbox, with real pause processes; ``faults``
are those that can be arranged there, and ``sut`` tests the controller.
"""
