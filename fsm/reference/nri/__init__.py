"""The NRI layer of a container runtime, driven by ``nri-api``, ``nri-container``, ``nri-pod`` and ``nri-plugin``.

``api`` is what a runtime calls, ``config`` how it is set up, ``lifecycle``
whether it accepts a call, ``entities`` the states of pods and containers, and
``domain`` lists and changes those.  ``plugins`` are the plugins that have
joined: ``connection`` is that of one, ``plugin_thread`` the thread on which it
is called, ``subscriptions`` the events that it may name; ``merge`` combines the
answers.  ``sync_lock`` keeps plugins from joining at the wrong time.
``messages`` are what is sent, ``nri_errors`` what can go wrong, ``upstream``
is what containerd and NRI do instead.  ``sut``, ``api_sut``, ``plugin_sut`` and
``sync_sut`` test them, with ``fakes`` of domains and plugins.

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
