"""The messages of ``cri.proto``. Their types are in ``cri_pb2.pyi``."""

from fsm.runtimes.sockets.descriptors import define_messages

define_messages(__name__, globals())
