"""The same methods, two ways of waiting: StreamManagerClient blocks, its twin is awaited.

Promise     a call returns what the server answered, or raises. Each exchange with the server ends
            within request_timeout (the sync client may be a twentieth late), and every call on a
            lost connection is told at once.
Before sending  values are checked here; ValidationException names the field, and nothing was sent.
Lost        a request that was on its way is never sent again: ConnectionLostException says that it
            may have been done. One that was not yet sent goes out on a new connection.
Reconnect   by the next call. After a failed attempt the next one pauses, 50 ms at first and up to
            5 s; a call made during the pause waits for its end, within its own timeout.
Threads     none of our own. Of the threads that wait in the sync client, one reads for all.
Read in order   endpoint, calls, fallback, following, link, sync, channel, aio.
"""
