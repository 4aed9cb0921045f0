"""Figures of the runs of the live Table III: what a row holds, the verdict on it, summaries and tables."""

import statistics

STREAMS = ("Atom", "Bond1", "Bond2")
# Streams with a promise.
CRITICAL = STREAMS[:2]
# Virtual algorithms, and the field in which they have the share of windows with the whole target.
ALGORITHMS = ("opt", "pgos")
MET = "own_phase_met_fraction"
# Figures of Table III.
FIELDS = ("target_mbps", "p95_mbps", "p99_mbps", "mean_mbps", "std_mbps", "jitter_ms")
# Share of windows, and of the target in them.
WINDOWS = 0.95
TARGET = 0.995
# For shares that were rounded when they were printed.
ROUNDING = 1e-4


def figures(report, rows):
    """Fields of a row: of the report of a live run, and of the rows of the calculation on it."""
    row = {name: report[name] for name in ("seed", "scale", "begin_s", "links", "promised_bps")}
    row["streams"] = {stream["stream"]: {name: stream[name] for name in (*FIELDS, "met_fraction", "skipped", "age_ms_p99")} for stream in report["streams"]}
    for algorithm in ALGORITHMS:
        own = [line for line in rows if line.get("algorithm") == algorithm]
        row[algorithm] = {line["stream"]: {name: line[name] for name in FIELDS} | {"met_fraction": line[MET]} for line in own}
    whole = next(line for line in rows if line.get("path") == "all")
    row["paths"] = {name: whole[name] for name in ("mean_mbps", "p95_mbps")}
    return row


def can_be_had(row, stream):
    """Whether a schedule in virtual time has the rate of a stream in 95 % of windows: the optimum, or what is no optimum."""
    return any(row[algorithm][stream]["met_fraction"] >= WINDOWS - ROUNDING for algorithm in ALGORITHMS)


def is_met(row, stream):
    """Whether 99.5 % of the rate of a stream were reached in 95 % of windows, live. A stream without frames has no rate."""
    live = row["streams"][stream]
    return bool(live["target_mbps"]) and live["p95_mbps"] >= TARGET * live["target_mbps"]


def groups(rows):
    """Rows with the same molecule, rates and duration."""
    found = {}
    for row in rows:
        found.setdefault((row["case"], row["setup"]), []).append(row)
    return found


def summary(rows):
    """A line for each group: of the critical streams of its runs, how many could have their rate, and how many of these had it."""
    for (case, setup), group in groups(rows).items():
        pairs = [(row, stream) for row in group for stream in CRITICAL]
        judged = [pair for pair in pairs if can_be_had(*pair)]
        yield {
            "summary": True,
            "case": case,
            "setup": setup,
            "runs": len(group),
            "streams": len(pairs),
            "can_be_had": len(judged),
            "met": sum(is_met(*pair) for pair in judged),
            "met_beyond": sum(is_met(*pair) for pair in pairs if not can_be_had(*pair)),
        }


def middle(values, digits):
    """Median, with least and largest, as text."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    return f"{statistics.median(known):.{digits}f} ({min(known):.{digits}f}–{max(known):.{digits}f})"


def table(rows):
    """Tables in Markdown: Table III with medians of the runs, and a line for each run."""
    for (case, setup), group in groups(rows).items():
        yield f"{case}, {setup}, {len(group)} runs: median (least–largest); Mbit/s, by whole frames"
        yield ""
        yield "| stream | | target | in 95 % of windows | in 99 % | mean | deviation | jitter, ms | windows with the whole target |"
        yield "|---" * 9 + "|"
        for stream in STREAMS:
            for name, field in (("live", "streams"), *((algorithm, algorithm) for algorithm in ALGORITHMS)):
                own = [row[field][stream] for row in group if stream in row[field]]
                cells = [middle([one[figure] for one in own], 1 if figure == "jitter_ms" else 3) for figure in FIELDS]
                yield f"| {stream} | {name} | {' | '.join(cells)} | {middle([one['met_fraction'] for one in own], 3)} |"
        yield ""
        yield "| run | paths, mean; 95 % | Atom, % of target in 95 % | windows: live, opt, pgos | | Bond1, % of target in 95 % | windows: live, opt, pgos | | load |"
        yield "|---" * 9 + "|"
        for row in sorted(group, key=lambda row: row["run"]):
            cells = [str(row["run"]), "{mean_mbps:.1f}; {p95_mbps:.1f}".format(**row["paths"])]
            for stream in CRITICAL:
                live = row["streams"][stream]
                share = f"{100 * live['p95_mbps'] / live['target_mbps']:.1f}" if live["target_mbps"] else "–"
                met = [live["met_fraction"], *(row[algorithm][stream]["met_fraction"] for algorithm in ALGORITHMS)]
                cells += [share, ", ".join(f"{one:.3f}" for one in met), verdict(row, stream)]
            yield f"| {' | '.join(cells)} | {row['load'][0]} to {row['load'][1]} |"
        yield ""
        for line in summary(group):
            yield "Rates of Atom and Bond1 that can be had: {can_be_had} of {streams}; of these met live: {met}.".format(**line)


def verdict(row, stream):
    if not can_be_had(row, stream):
        return "cannot be had"
    return "met" if is_met(row, stream) else "**missed**"
