"""Pods of the CRI service, driven by the machine ``pod-sandbox``. ``service`` has the calls.

A pod has a unique name, ``metadata`` in a file, an address from ``network``, a pause process of
:mod:`~fsm.runtimes.reference.sandbox.controller`, and ``containers``. ``stages`` creates in order everything that a run
needs, and undoes it.
"""
