"""The NRI layer of a container runtime, driven by ``nri-api``, ``nri-container``, ``nri-pod`` and ``nri-plugin``.

``api`` is what a runtime calls, ``domain`` has its pods and containers, and
``plugins`` are the plugins that have joined, each by a ``connection``.

>>> from fsm.reference.nri.api import NRI
>>> from fsm.reference.nri.messages import Pod
>>> nri = NRI()
>>> nri.start()
>>> nri.run_pod_sandbox(Pod(id="p1"))
>>> nri.pod_state("p1")
'running'
>>> nri.stop()
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
