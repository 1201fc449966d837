"""The Spark application that does the exports. The only folder that knows Spark.

Driver      asks the server for leases on due exports, packs them into a Spark job, and asks again
            without waiting for it: scheduler.py
Task        starts a thread per lease in its Python worker and waits for those that get on: task.py
Thread      reads its range from the server, cuts batches, sends them one after another, and reports
            each to the server: export.py
Table       a lease that goes to a Parquet table is a job of its own: tables.py, tables_commit.py
Always      the server's position is the only truth; an export is never in two jobs, because its
            lease is taken; a thread that hangs keeps its lease and nothing else.
Dies        the driver ends when its server or the JVM does; workers end with the JVM, the JVM with
            the driver. The server's supervisor starts all of it again.
Read in order   app, jvm, context, scheduler, failure, task, export, archive.
"""
