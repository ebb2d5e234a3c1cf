"""containerd's CRI service as asyncio tasks: its construction, Run and Close.

``service`` constructs and runs its ``components``: the event monitor, a syncer for each CNI directory, the streaming
server, the NRI registration, and the queue of container events.
"""
