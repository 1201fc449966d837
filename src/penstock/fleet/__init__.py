"""Look over many servers and stores at once: what they hold, what is missing, whose clock is wrong.

Asks        one connection and one request per server (SurveyStreams), as many at once as allowed;
            a store folder is looked at as it lies there. Neither reads a payload.
Duplicates  only on demand: they need every payload.
Always      a server that does not answer is in the report with the reason, and stops nobody.
Read in order   report, servers, stores, duplicates.
"""
