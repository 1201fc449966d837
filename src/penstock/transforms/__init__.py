"""Declared transforms: a stream, a payload format, one SQL statement, a target. No Spark in here.

Declared    as `[transforms.NAME]` in penstock.toml, checked as far as it can be told without Spark.
Run         by the pipeline, as Structured Streaming queries; the server says which, and from where.
Recorded    by the server: the generation of each transform's checkpoint, whether it ever ran, and
            up to which message malformed payloads are in the dead letters.
Always      a generation's checkpoint is never used for what it was not made for: a reset begins a
            new generation and leaves the old folder as it is.
Read in order   declaration, keys, reports, records.
"""
