"""containerd's own sandbox controller: a record of each pod, its pause process, and waiting for its exit.

``controller`` is driven by the machine ``sandbox-controller``, and
``upstream`` is what containerd does instead where that is wrong.  ``world`` is
what a sandbox needs from its surroundings, ``processes`` such a world of real
processes; ``faults`` are the ones that can be arranged there, and ``sut``
tests the controller.
"""
