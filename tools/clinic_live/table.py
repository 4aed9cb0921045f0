"""Medians of the comparison as a table in Markdown."""

COLUMNS = (
    ("I frames in time, %", "i_in_time_fraction", 100, "{:.1f}"),
    ("P frames of use, %", "p_usable_fraction", 100, "{:.1f}"),
    ("speech in time, %", "speech_in_time_fraction", 100, "{:.2f}"),
    ("shown frames, 95 %, ms", "shown_p95_ms", 1, "{:.0f}"),
    ("longest pause, ms", "longest_pause_ms", 1, "{:.0f}"),
    ("after the cut, ms", "pause_after_cut_ms", 1, "{:.0f}"),
    ("record goes on after, s", "back_s", 1, "{:.2f}"),
    ("ECG identical, %", "ekg_identical_fraction", 100, "{:.3f}"),
    ("CPU of the ambulance, % of one", "ambulance_cpu", 100, "{:.2f}"),
)


def table(rows):
    yield f"| case | set-up | {' | '.join(title for title, *_ in COLUMNS)} | runs | load |"
    yield "|---" * (len(COLUMNS) + 4) + "|"
    for line in rows.summary():
        cells = [cell(line, *column[1:]) for column in COLUMNS]
        loads = f"{line['load_min']:.1f} to {line['load_max']:.1f}"
        yield f"| {line['case']} | {line['setup']} | {' | '.join(cells)} | {line['runs']} | {loads} |"


def cell(line, name, factor, form):
    """Median, least and largest; a dash where the set-up has no such figure."""
    if f"{name}_median" not in line:
        return "–"
    median, least, most = (form.format(line[f"{name}_{part}"] * factor) for part in ("median", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"
