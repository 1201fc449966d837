"""Whether all is well, in one line: for probes and load balancers."""

from __future__ import annotations

from penstock.console.picture import Picture
from penstock.units import MIB

# Less than this, and the next segments do not fit.
DISK_FREE_BYTES_MIN = 64 * MIB
PIPELINE_TROUBLES = ("unavailable", "restarting")


def reason_against_work(picture: Picture) -> str | None:
    """Why a server that answers cannot do its work; None if it can."""
    server, pipeline = picture.server, picture.pipeline
    if server.disk_free_bytes < DISK_FREE_BYTES_MIN:
        free_mib = server.disk_free_bytes // MIB
        return f"the disk of {server.data_dir} is full: {free_mib} MiB are free"
    if pipeline.state in PIPELINE_TROUBLES:
        return f"the pipeline is {pipeline.state}: {pipeline.text or 'no reason is known'}"
    return None
