"""The NRI layer of a container runtime, driven by ``nri-api``, ``nri-container``, ``nri-pod`` and ``nri-plugin``.

``api`` is what a runtime calls, ``domain`` has its pods and containers, and
``plugins`` are the plugins that have joined, each by a ``connection``.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
