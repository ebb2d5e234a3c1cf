"""The environment of pods: their containers, and an observer of what happens to them. The defaults do nothing."""

from fsm.runtimes.reference.fault_injection import Faults


class Containers:
    """The containers of all pods. This class keeps none.

    Every method may be a coroutine function, may raise :class:`~fsm.runtimes.reference.driven.WorldError`, and has a
    point in *faults*.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = Faults() if faults is None else faults

    def create(self, _pod: str) -> object:
        return self._passes("create container")

    def stop(self, _pod: str) -> object:
        """Stop the containers of a pod one after the other, up to the first that cannot be stopped."""
        return self._passes("stop containers")

    def remove(self, _pod: str) -> object:
        """Remove all containers of a pod, in any state. Can be repeated."""
        return self._passes("remove containers")

    def _passes(self, point: str) -> bool:
        self._faults.point(point)
        return True


class PodObserver:
    """Is notified of what happens to pods. Each method may be a coroutine function."""

    def runs(self, _pod: str) -> object:
        """Note that the pause process of a pod is running, and that the pod is not ready yet.

        May raise :class:`~fsm.runtimes.reference.driven.WorldError`.
        """

    def stopped(self, _pod: str) -> object:
        """Note that the pause process of a pod was stopped."""

    def removed(self, _pod: str) -> object:
        """Note that a pod was removed, or that its run was undone."""
