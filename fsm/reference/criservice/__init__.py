"""containerd's CRI service as processes on asyncio: how it is constructed, run and closed.

``construction`` makes the service, driven by ``service-construction``, and
``service`` runs it, driven by ``service-run`` and ``service-flag``.  It starts
``components``, each driven by ``service-component``: the ``event_monitor``, a
``syncer`` for each CNI folder, the ``streaming`` server, the registration with
NRI, and the queue of container events.  ``upstream`` is what containerd does
instead.  ``sut``, ``construction_sut`` and ``monitor_sut`` test them, with
the ``faults`` that can be arranged.
"""
