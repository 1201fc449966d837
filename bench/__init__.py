"""How fast it is, measured: `make bench`, or `python -m bench --only CASE --quick`.

Promise     a table, and build/bench.json: every figure with all its raw values, what was demanded,
            and the machine it was measured on. Exit status 1 if a demand is missed.
Always      a real `penstock serve`; what is compared is measured in turns; the median counts.
Needs       Linux, for /proc; Java 17; the first run installs AWS's SDK, Kafka and Spark's connector
            for it into build/environments. Without Kafka its figures are left out, with a word.
"""
