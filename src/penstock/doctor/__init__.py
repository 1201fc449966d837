"""Looks at a machine as a server would find it, and says what needs doing.

Promise     nothing is changed, nothing is sent to a destination but what `check()` of it asks, no
            secret is shown; every check ends within seconds, whatever the network does.
Check       a function that returns Findings; one file per subject; each can be run by itself.
Levels      ok; note: worth knowing, or it could not be told; problem: somebody has to act.
Read in order   finding, then the subject you look for; examination puts them together.
"""
