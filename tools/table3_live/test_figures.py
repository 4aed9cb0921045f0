"""What is a met rate, and what is in the tables."""

import unittest

from table3_live.figures import can_be_had, figures, is_met, summary, table

FIGURES = {"p99_mbps": 7.0, "mean_mbps": 8.0, "std_mbps": 0.1, "jitter_ms": 2.0}


def stream(target, p95, met):
    return FIGURES | {"target_mbps": target, "p95_mbps": p95, "met_fraction": met, "skipped": 0, "age_ms_p99": None}


def row(run, live_p95, opt_met, target=8.0):
    """A run in which both critical streams have the same figures."""
    names = ("Atom", "Bond1", "Bond2")
    report = {"seed": run, "scale": 4, "begin_s": 18.0, "links": [], "promised_bps": [None] * 3}
    report["streams"] = [{"stream": name} | stream(target, live_p95, 0.95) for name in names]
    rows = [{"path": "all", "mean_mbps": 30.0, "p95_mbps": 20.0}, {"path": "fixed", "mean_mbps": 1.0, "p95_mbps": 1.0}]
    for algorithm in ("opt", "pgos"):
        rows += [{"algorithm": algorithm, "stream": name, "own_phase_met_fraction": opt_met} | stream(8.0, 8.0, None) for name in names]
    return {"case": "adk x4", "setup": "15+120 s", "run": run, "load": [0.1, 0.5]} | figures(report, rows)


class Figures(unittest.TestCase):
    def test_what_any_schedule_has_can_be_had(self):
        one = row(1, 8.0, 0.9)
        self.assertFalse(can_be_had(one, "Bond1"))
        one["pgos"]["Bond1"]["met_fraction"] = 0.95
        self.assertTrue(can_be_had(one, "Bond1"))

    def test_a_rate_is_judged_where_the_optimum_has_it(self):
        for live, opt, can, met in ((8.0, 1.0, True, True), (7.96, 0.95, True, True), (7.95, 0.95, True, False), (7.68, 0.9499, True, False), (8.0, 0.9416, False, True)):
            one = row(1, live, opt)
            self.assertEqual((can_be_had(one, "Atom"), is_met(one, "Atom")), (can, met), (live, opt))

    def test_a_stream_without_frames_is_not_met(self):
        self.assertFalse(is_met(row(1, 0.0, 1.0, target=0.0), "Bond1"))

    def test_the_summary_counts_streams_of_runs(self):
        rows = [row(1, 8.0, 1.0), row(2, 7.68, 1.0), row(3, 7.68, 0.9), row(4, 8.0, 0.9)]
        (line,) = summary(rows)
        self.assertEqual({name: line[name] for name in ("runs", "streams", "can_be_had", "met", "met_beyond")}, {"runs": 4, "streams": 8, "can_be_had": 4, "met": 2, "met_beyond": 2})

    def test_the_tables_have_all_runs_and_streams(self):
        rows = [row(2, 7.68, 1.0), row(1, 8.0, 1.0), row(3, 0.0, 0.9, target=0.0)]
        lines = list(table(rows))
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
        self.assertTrue(all(len(line) == 9 for line in cells), lines)
        self.assertEqual([line[:3] for line in cells if line[:2] == ["Atom", "live"]], [["Atom", "live", "8.000 (0.000–8.000)"]])
        self.assertEqual([line[:2] + line[4:5] for line in cells[-3:]], [["1", "30.0; 20.0", "met"], ["2", "30.0; 20.0", "**missed**"], ["3", "30.0; 20.0", "cannot be had"]])
        self.assertEqual(lines[-1], "Rates of Atom and Bond1 that can be had: 4 of 6; of these met live: 2.")


if __name__ == "__main__":
    unittest.main()
