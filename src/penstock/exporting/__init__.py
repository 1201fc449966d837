"""Which exports are due, who works on them, and how far they got. No sockets, no Spark.

Lease       the right to send one export's messages for a while; an export has at most one.
Position    only a commit under a valid lease moves it; it is saved before the commit is answered.
Due         see due.py; among due exports the higher priority first, then who waited longest; who
            waited longer than AGING_MS is served as if it had the highest priority, so that nobody
            starves.
Refused     a message that a destination refuses for good is a dead letter before the position
            passes it.
Canceled    S3 tasks that will never run get a status that says so.
Read in order   due, bandwidth, dead_letters, state, desk, canceled.
"""
