"""What a pod needs from its containers: to create, stop and remove them."""

from fsm.reference.fault_injection import Faults


class Containers:
    """The containers of all pods, of which only the number of ``running`` ones is kept.

    Every method may raise :class:`~fsm.reference.container.world.WorldError`, and has a point in *faults*.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.running: dict[str, int] = {}
        self._faults = Faults() if faults is None else faults

    def create(self, pod: str) -> None:
        self._faults.point("create container")
        self.running[pod] = self.running.get(pod, 0) + 1

    def stop(self, pod: str) -> None:
        """Stop the containers of *pod* one after the other, up to the first that cannot be stopped."""
        self._faults.point("stop containers")
        if pod in self.running:
            self.running[pod] = 0

    def remove(self, pod: str) -> None:
        """Remove all containers of *pod*, in any state; can be repeated."""
        self._faults.point("remove containers")
        self.running.pop(pod, None)
