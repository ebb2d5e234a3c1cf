"""containerd's CRI service as processes on asyncio: how it is constructed, run and closed.

``service`` makes and runs its ``components``: the event monitor, a syncer for each CNI folder, the streaming server,
the registration with NRI, and the queue of container events.
"""
