"""The features of runtimes that the CRI service lists, driven by the machine ``runtime-handlers``."""
