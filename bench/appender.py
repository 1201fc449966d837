"""A program for AWS's SDK and for ours, each in its own environment: appends one at a time."""

import importlib
import sys
import time

# Enough for the connection, the caches and the interpreter's specialised code to settle.
WARM_UP_COUNT = 300


def main(module: str, port: str, stream_name: str, count: str, payload_bytes: str) -> None:
    payload = bytes(int(payload_bytes))
    client = importlib.import_module(module).StreamManagerClient(port=int(port))
    for _ in range(WARM_UP_COUNT):
        client.append_message(stream_name, payload)
    started = time.perf_counter()
    for _ in range(int(count)):
        client.append_message(stream_name, payload)
    print(int(count) / (time.perf_counter() - started))
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
