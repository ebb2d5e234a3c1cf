"""A container as containerd keeps it, driven by the machine ``container-status``.

``container`` is the container, ``effects`` what events do to its data,
``recovery`` what a restart makes of it.  Its data are a ``record``, kept by
``storage`` in memory and as a ``checkpoint`` in a file that ``durable_files``
writes.  ``world`` is what it needs from its surroundings; ``faults`` is a
simulated world that can fail, and ``sut`` tests the container in it.
"""
