"""The features of runtimes that the CRI service lists, driven by the machine ``runtime-handlers``.

``introspection`` finds them out, as it should and, under the profile
``upstream``, as containerd does; ``sut`` tests it.
"""
