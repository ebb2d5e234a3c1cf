"""The NRI layer of a container runtime, driven by ``nri-api``, ``nri-container``, ``nri-pod`` and ``nri-plugin``.

``api`` is what a runtime calls, and ``domain`` holds its pods and containers. ``plugins`` holds the plugins that have
joined, each through a ``connection``.
"""

import logging

logging.getLogger(__name__).addHandler(logging.NullHandler())
