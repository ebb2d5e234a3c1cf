"""The reference implementation: objects that machines drive, with their data and effects.

The machine decides what may happen, what follows and what is replied; the code here changes the data, and reports
which outcome that was.  Methods for calls raise :class:`~fsm.runtimes.reference.driven.CallError` for an error reply, and
:class:`~fsm.machine.driver.CannotHappenError` where the machine has no answer.  Each package is a part of containerd;
in it, ``upstream`` is what containerd does where the machine means something else, and ``sut`` (or several) puts it
under test, and makes it fail.
"""
