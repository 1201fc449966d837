"""The server: sockets on one side, streams on the other, one thread in between.

Promise     every request is answered once, in time, and an append only after it is stored.
Turn        appends that arrive in one turn of the event loop become one write per stream; with
            flushOnWrite one sync serves everybody who waited.
Bounded     frames, requests in flight, waiting reads, unsent bytes, connections: see settings.
Threads     only syncs and large reads leave the event loop; they work on handles of their own.
Read in order   app, tcp, outbox, handlers, writer, reads.
"""
