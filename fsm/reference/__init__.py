"""The reference implementation: objects that machines drive, with their data and effects.

The machine decides what may happen, what follows and what is replied; the code
here changes the data, and reports which outcome that was.  ``container``,
``sandbox``, ``pods``, ``nri``, ``criservice``, ``events`` and
``runtime_handlers`` are parts of containerd; in each, ``upstream`` is what
containerd does where the machine means something else, ``sut`` (or several)
puts it under test, and ``faults`` is what can be made to fail.

``driven`` is what all of them need of their machines, ``clock`` and ``tasks``
of time and event loops; ``harness`` and ``fault_injection`` are shared by the
SUTs.
"""
