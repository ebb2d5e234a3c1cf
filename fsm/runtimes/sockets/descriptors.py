"""Define the messages of a protocol from the descriptors that protoc writes.

The modules that protoc can generate do the same, but they refuse every version of protobuf that is older than protoc.
"""

import pkgutil

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder


def define_messages(module: str, names: dict[str, object]) -> None:
    """Add the messages and enumerations of a protocol to the *names* of its *module*, such as ``cri_pb2``."""
    protocol = module.rpartition(".")[2].removesuffix("_pb2")
    data = pkgutil.get_data(__name__, f"{protocol}.binpb") or b""
    (described,) = descriptor_pb2.FileDescriptorSet.FromString(data).file
    found = descriptor_pool.Default().AddSerializedFile(described.SerializeToString())
    names["DESCRIPTOR"] = found
    builder.BuildMessageAndEnumDescriptors(found, names)
    builder.BuildTopDescriptorsAndMessages(found, module, names)
