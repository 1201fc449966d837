"""What a stream is: a log, a definition, and how far its exports got.

Store       <root>/penstock.lock                 held by the one server that owns the store
            <root>/streams/<id>/stream.json      name and definition, with a second copy beside it
            <root>/streams/<id>/exports          a line per step of an export
            <root>/streams/<id>/origins          a line per append that names its origin, if any
            <root>/streams/<id>/                 the log, see penstock/log
Always      folders are named by ids, never by users' text; a folder whose id has an ending is half
            made or half deleted, and removed at the next start.
Memory      streams have the same parts in memory and leave nothing on disk.
Read in order   exports, origins, rules, stream, manager, store, verify.
"""
