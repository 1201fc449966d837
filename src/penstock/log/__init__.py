"""An append-only log in a folder.

Promise     what append() returned survives the death of the process, and after sync() a power cut.
Files       <first sequence, 20 digits>.data    payloads, one after another, nothing else
            <first sequence, 20 digits>.index   one 32-byte entry per message, see penstock/block.py
            mark                                the next sequence number, and how far it may jump
Always      message n of a segment is entry n - first; a sealed segment never changes; a number that
            somebody was told is never given again, whatever was lost; between two segments there
            may be a gap, within one never.
After a crash   a torn tail is cut off and kept beside in .torn files; damage elsewhere is reported
            by every read that touches it, never repaired.
Read in order   disk, memory, mark, segment, scan, recovery, retention, log, document.
"""
