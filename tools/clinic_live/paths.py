"""Six recorded cellular paths, as in `anabranch-lab run telemedicine`: two drives of one day, three operators each, made slow.

The recordings have rates only. Delays and losses are those of pings of the same operators on other drives
(`crates/lab/src/experiments/telemedicine/lines.rs`).
"""

import csv
import statistics

DRIVES = ("udp_20230404-100714", "udp_20230404-112733")
OPERATORS = ("att", "tmobile", "verizon")
# Median round trip in ms, fraction of pings lost both ways, mean length of a burst.
PINGS = ((62.0, 0.0063, 1.93), (50.0, 0.0099, 2.04), (44.0, 0.0096, 3.30), (52.0, 0.0043, 3.23), (51.0, 0.0115, 3.18), (48.0, 0.0253, 4.12))
LOAD = 0.8
# The downlink is so much faster.
DOWN = 3.0
# Of the recordings, each run begins so much later.
STEP_S = 20


def links(data, offered_bps, run):
    """Descriptions of the links for `anabranch emulate`; None if the recordings are not at hand."""
    files = [data / "paths" / "satcell" / drive / f"{operator}.csv" for drive in DRIVES for operator in OPERATORS]
    if not all(file.exists() for file in files):
        return None
    scale = offered_bps / LOAD / sum(map(mean_bps, files))
    texts = []
    for file, (rtt_ms, loss, burst) in zip(files, PINGS):
        rest = f"delay={rtt_ms / 2} ms, jitter=6 ms, queue=1 s, loss={loss / 2 * 100:.3f} % in bursts of {burst}"
        ways = [f'rate=trace "{file}" x{scale * factor:.6f} from {STEP_S * (run - 1)} s, {rest}' for factor in (1.0, DOWN)]
        texts.append(" ; ".join(ways))
    return texts


def mean_bps(file):
    with file.open() as lines:
        rows = [row for row in csv.reader(line for line in lines if not line.startswith("#"))]
    values = [float(row[1]) for row in rows[1:] if len(row) > 1 and row[1]]
    return statistics.fmean(values)
