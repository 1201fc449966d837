"""Bytes <-> requests and responses. No sockets, no asyncio.

Start       each side sends the byte 0x01 once, then frames, first of them Connect or its answer.
Frame       length int32 big endian | operation int8 | one CBOR map of length - 1 bytes
Always      a response repeats its request's requestId; null is never sent; a frame is one write.
Extensions  operations from 64 up, only on connections that asked for them in the Connect map.
Read in order   framing, operations, cbor, codec, connection.
"""
