"""The messages of ``nri.proto``. Their types are in ``nri_pb2.pyi``."""

from fsm.runtimes.sockets.descriptors import define_messages

define_messages(__name__, globals())
