"""The reference implementation: objects with data and effects, driven by machines.

The machine decides which events may happen, which state follows, and which reply a call gets. The code here changes
the data and reports which outcome occurred. The method of a call raises
:class:`~fsm.runtimes.reference.driven.CallError` for an error reply, and
:class:`~fsm.machine.driver.CannotHappenError` if the machine defines no reply. Each package implements a part of
containerd. If containerd does not behave as the machine intends, the module ``upstream`` of a package implements
containerd's behaviour. The ``sut`` modules test their package and inject failures.
"""
