"""What a pod needs from its containers: to create, stop and remove them."""

from fsm.reference.fault_injection import Faults


class Containers:
    """The containers of all pods, of which nothing is kept.

    Every method may raise :class:`~fsm.reference.container.world.WorldError`, and has a point in *faults*.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = Faults() if faults is None else faults

    def create(self, _pod: str) -> None:
        self._faults.point("create container")

    def stop(self, _pod: str) -> None:
        """Stop the containers of a pod one after the other, up to the first that cannot be stopped."""
        self._faults.point("stop containers")

    def remove(self, _pod: str) -> None:
        """Remove all containers of a pod, in any state; can be repeated."""
        self._faults.point("remove containers")
