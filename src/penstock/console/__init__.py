"""The console: what a server does, in a browser and for Prometheus.

Process     of its own, a client of the server like all others. However many rows a page has or
            browsers there are, the server answers one ObserveServer per second, or every 5 s while
            nobody looks.
Live        server-sent events: a snapshot first, then what changed. A browser that does not keep
            up gets a fresh snapshot instead of a queue that grows.
Kept        15 minutes of lags and rates, in memory.
Guarded     Host and Origin are checked always, a token when the server wants one. No page or
            script of another origin is ever loaded.
Read in order   picture, history, poll, events, access, api, messages, health, app, run.
"""
