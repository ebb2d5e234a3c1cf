"""containerd's CRI service as processes, on asyncio: what it is made of, how it is run, and how it is closed.

``construction`` makes it, ``service`` runs it as it should be, and
``as_written`` as it is.  What runs beside Run is a :class:`Component`: the
event monitor, a syncer for each CNI folder, the streaming server, the
registration with NRI, and the queue of container events.
"""
