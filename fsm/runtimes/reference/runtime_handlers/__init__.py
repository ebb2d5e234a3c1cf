"""The runtime features that the CRI service lists, driven by the machine ``runtime-handlers``."""
