"""A reference implementation of containerd's containers, pods and plugins, driven by the state machines.

The machines decide which events may happen, which state follows, and how a call is answered. The code in these packages
carries out the effects and reports which outcome occurred. A call that is answered with an error raises
:class:`~fsm.runtimes.reference.driven.CallError`, and a call that the machine does not answer at all raises
:class:`~fsm.machine.driver.CannotHappenError`.

Each package implements a part of containerd as the machines specify it. If containerd itself behaves differently, a
module ``upstream`` imitates containerd. The ``sut`` modules put their package under test and inject failures.
"""
