"""A plant, a cloud and a server on this machine: `penstock demo`.

Shows       telemetry to Kinesis, temperatures to SiteWise, reports to S3 with a status stream, a
            transform in SQL that keeps a table, outages of the link, a message that is refused.
Real        the server, its pipeline and its console are those of `penstock serve`, in processes of
            their own. Invented are the machines, and the cloud (`penstock.testing`).
Ends        with Ctrl-C, in order. If this process is killed, the server notices and ends as well.
Check       the same without a person: every message is followed from the program that wrote it to
            the service that took it, or to the dead letters.

Read in order   plant (the example: a program for AWS's SDK), machines, stage, check.
"""
