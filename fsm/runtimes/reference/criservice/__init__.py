"""containerd's CRI service as processes on asyncio: its construction, Run and Close.

``service`` constructs and runs its ``components``: the event monitor, a syncer for each CNI folder, the streaming
server, the registration with NRI, and the queue of container events.
"""
