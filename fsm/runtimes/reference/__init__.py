"""The reference implementation: objects with data and effects, driven by machines.

The machine decides what may happen, which state follows and which reply a call gets. The code here changes the data and
reports which outcome occurred. Methods for calls raise :class:`~fsm.runtimes.reference.driven.CallError` for an error
reply, and :class:`~fsm.machine.driver.CannotHappenError` if the machine has no reply. Each package is a part of
containerd. In a package, ``upstream`` implements the behaviour of containerd if it differs from the intention of the
machine. ``sut`` modules put the package under test and inject failures.
"""
