"""The NRI layer of a container runtime, driven by ``nri-api``, ``nri-container``, ``nri-pod`` and ``nri-plugin``.

``api`` is what a runtime calls, ``config`` how it is set up, ``domain`` who
knows pods and containers and can change them, ``plugins`` who is asked, and
``connection`` each of them from its coming to its end; ``messages`` is what is
said, ``errors`` what goes wrong; ``lifecycle`` and ``memory`` hold the states,
``merging`` puts answers together, ``syncing`` keeps plugins from joining at the
wrong time.

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
