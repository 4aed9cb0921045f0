"""Medians of the comparison as a table in Markdown."""

from .cases import CASES
from .programs import PROGRAMS


def table(rows):
    """A row for each case, program and setting, the ratio being that of the best rival's time to its own."""
    yield "| case | program | paths, controller | s, median (least to largest) | best rival over it | CPU s, near; far | CPU s/GB | runs | load |"
    yield "|---" * 9 + "|"
    lines = list(rows.summary())
    over_limit = {(row["case"], row["setup"]) for row in rows.rows if row.get("is_over_limit")}
    lacking = {row["case"]: row["lacks"] for row in rows.rows if "lacks" in row}
    for case in dict.fromkeys(line["case"] for line in lines):
        of_case = [line for line in lines if line["case"] == case and "seconds_median" in line]
        rivals = [line["seconds_median"] for line in of_case if is_rival(line) and (case, line["setup"]) not in over_limit]
        for line in of_case:
            program, _, setting = line["setup"].partition("/")
            loads = f"{line['load_min']:.1f} to {line['load_max']:.1f}"
            if (case, line["setup"]) in over_limit:
                yield f"| {case} | {program} | {setting} | > {line['seconds_median']:.0f} | – | – | – | {line['runs']} | {loads} |"
                continue
            seconds = "{:.3g} ({:.3g} to {:.3g})".format(*(line[f"seconds_{part}"] for part in ("median", "min", "max")))
            ratio = f"{min(rivals) / line['seconds_median']:.2f}" if rivals else "–"
            near, far = line["cpu_near_s_median"], line["cpu_far_s_median"]
            cost = (near + far) / CASES[case].bytes * 1e9
            cells = (case, program, setting, seconds, ratio, f"{near:.2f}; {far:.2f}", f"{cost:.1f}", line["runs"], loads)
            yield f"| {' | '.join(map(str, cells))} |"
        if case in lacking and not any("/mptcp" in line["setup"] for line in of_case):
            yield f"| {case} | rivals with MPTCP | – | {lacking[case]} | | | | | |"


def is_rival(line):
    return not PROGRAMS[line["setup"].partition("/")[0]].is_ours
