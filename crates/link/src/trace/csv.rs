//! The bandwidth CSV: `t_s,bandwidth_bps[,rtt_ms][,loss]`.

use std::time::Duration;

use anabranch_base::Rate;

use super::{DURATION_MAX, ParseTraceError, RATE_MAX, ROWS_MAX, Step, lines};

const HEADER: &str =
    "a header naming the columns t_s and bandwidth_bps, and optionally rtt_ms and loss, once each";
const TIME: &str =
    "a time in seconds, later than the line before, at most 3600000 s from the first";
const RATE: &str = "a rate in bits per second from 0 to 1e15, or nothing";
const RTT: &str = "a round-trip time in milliseconds from 0 to 3.6e6, or nothing";
const LOSS: &str = "a loss fraction from 0 to 1, or nothing";

/// Positions of the columns.
struct Columns {
    count: usize,
    time: usize,
    rate: usize,
    rtt: Option<usize>,
    loss: Option<usize>,
}

/// Parses the rows; returns them with the time at which the last one ends.
pub(super) fn parse(text: &str) -> Result<(Vec<Step>, Duration), ParseTraceError> {
    let mut lines = lines(text);
    let empty = |missing| ParseTraceError::Empty {
        missing,
        expected: "t_s,bandwidth_bps[,rtt_ms][,loss]",
    };
    let (line, header) = lines.next().ok_or_else(|| empty("header"))?;
    let columns = Columns::parse(line, header)?;

    let mut steps: Vec<Step> = Vec::new();
    // Rows before the first measured rate take that rate.
    let mut unmeasured = 0;
    let mut is_measured = false;
    let mut begin_s = 0.0;
    for (line, row) in lines {
        if steps.len() == ROWS_MAX {
            let most = ROWS_MAX;
            return Err(ParseTraceError::TooMany { line, most });
        }
        let row = Row::new(line, row, &columns)?;
        let time_s = row
            .number(columns.time, TIME, f64::MIN, f64::MAX)?
            .ok_or_else(|| row.error(columns.time, TIME))?;
        if steps.is_empty() {
            begin_s = time_s;
        }
        let at = since_s(begin_s, time_s).ok_or_else(|| row.error(columns.time, TIME))?;
        let last = steps.last().copied();
        if last.is_some_and(|last| at <= last.at) {
            return Err(row.error(columns.time, TIME));
        }
        let rate_bps = row.number(columns.rate, RATE, 0.0, RATE_MAX.as_bps() as f64)?;
        let rate = rate_bps.map(|bps| Rate::from_bps(bps.round() as u64));
        let rtt_ms = row.optional(columns.rtt, RTT, 0.0, 3.6e6)?;
        let rtt = rtt_ms.map(|ms| Duration::from_secs_f64(ms / 1e3));
        let loss = row.optional(columns.loss, LOSS, 0.0, 1.0)?;
        if let Some(rate) = rate.filter(|_| !is_measured) {
            is_measured = true;
            for step in &mut steps[..unmeasured] {
                step.rate = rate;
            }
        }
        unmeasured += usize::from(!is_measured);
        steps.push(Step {
            at,
            rate: rate.or(last.map(|last| last.rate)).unwrap_or_default(),
            rtt: rtt.or(last.and_then(|last| last.rtt)),
            loss: loss.or(last.and_then(|last| last.loss)),
        });
    }
    if !is_measured {
        return Err(empty("row with a rate"));
    }
    let duration = end(&steps);
    Ok((steps, duration))
}

/// The last row holds as long as the one before it.
fn end(steps: &[Step]) -> Duration {
    match steps {
        [.., before, last] => last.at + (last.at - before.at),
        _ => Duration::from_secs(1),
    }
}

/// Time from the first row, to the nanosecond; `None` if negative or too long.
fn since_s(begin_s: f64, time_s: f64) -> Option<Duration> {
    let since = Duration::try_from_secs_f64(time_s - begin_s).ok()?;
    (since <= DURATION_MAX).then_some(since)
}

impl Columns {
    fn parse(line: usize, header: &str) -> Result<Self, ParseTraceError> {
        let (mut time, mut rate, mut rtt, mut loss) = (None, None, None, None);
        let mut count = 0;
        for cell in header.split(',') {
            let slot = match cell.trim() {
                "t_s" => &mut time,
                "bandwidth_bps" => &mut rate,
                "rtt_ms" => &mut rtt,
                "loss" => &mut loss,
                other => return Err(ParseTraceError::cell(line, count + 1, other, HEADER)),
            };
            if slot.replace(count).is_some() {
                return Err(ParseTraceError::cell(line, count + 1, cell, HEADER));
            }
            count += 1;
        }
        let missing = || ParseTraceError::cell(line, count, header, HEADER);
        Ok(Self {
            count,
            time: time.ok_or_else(missing)?,
            rate: rate.ok_or_else(missing)?,
            rtt,
            loss,
        })
    }
}

/// One line, split into as many cells as the header has.
struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn new(line: usize, row: &'a str, columns: &Columns) -> Result<Self, ParseTraceError> {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        if cells.len() != columns.count {
            let expected = "as many cells as the header has";
            let column = cells.len().min(columns.count + 1);
            return Err(ParseTraceError::cell(line, column, row, expected));
        }
        Ok(Self { line, cells })
    }

    fn error(&self, column: usize, expected: &'static str) -> ParseTraceError {
        ParseTraceError::cell(self.line, column + 1, self.cells[column], expected)
    }

    /// The number in a cell, `None` if it is empty.
    fn number(
        &self,
        column: usize,
        expected: &'static str,
        least: f64,
        most: f64,
    ) -> Result<Option<f64>, ParseTraceError> {
        let cell = self.cells[column];
        if cell.is_empty() {
            return Ok(None);
        }
        let number = cell.parse::<f64>().ok();
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.error(column, expected)),
        }
    }

    /// As [`Self::number`], for a column that may be missing.
    fn optional(
        &self,
        column: Option<usize>,
        expected: &'static str,
        least: f64,
        most: f64,
    ) -> Result<Option<f64>, ParseTraceError> {
        column.map_or(Ok(None), |column| {
            self.number(column, expected, least, most)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Trace,
        trace::{ParseTraceError, Shape, Step},
    };
    use anabranch_base::Rate;
    use std::time::Duration;

    fn steps(text: &str) -> Vec<Step> {
        match Trace::from_csv("test", text).unwrap().shape() {
            Shape::Steps(steps) => steps.clone(),
            Shape::Opportunities(_) => panic!("not steps"),
        }
    }

    fn place(text: &str) -> (usize, usize) {
        match Trace::from_csv("test", text) {
            Err(ParseTraceError::Cell { line, column, .. }) => (line, column),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_rows_and_sums_them_up() {
        let text = "t_s,bandwidth_bps\r\n# a comment\n10,1000\n11,3000\n\n12.5,2000\n";
        let trace = Trace::from_csv("test", text).unwrap();
        // 1000 for 1 s, 3000 for 1.5 s, 2000 for 1.5 s again: 8500 bits in 4 s.
        assert_eq!(trace.duration(), Duration::from_secs(4));
        assert_eq!(trace.rate_mean(), Rate::from_bps(2125));
        assert_eq!(
            (trace.rate_min(), trace.rate_max()),
            (Rate::from_bps(1000), Rate::from_bps(3000))
        );
        assert_eq!(trace.bits(Duration::from_secs(2)), 4000.0);
        assert_eq!(trace.bits(Duration::from_secs(5)), 9500.0);
        assert_eq!(
            trace.rate_at(Duration::from_millis(6500)),
            Rate::from_bps(2000).max(trace.rate_at(Duration::from_millis(2500)))
        );
        assert_eq!(
            trace.to_string(),
            "test: 4.0 s, mean 2.12 kbit/s, 1.00 kbit/s to 3.00 kbit/s"
        );
    }

    #[test]
    fn empty_cells_hold_the_value_above() {
        let rows = steps("t_s,bandwidth_bps,rtt_ms,loss\n0,,,\n1,7000,,0.5\n2,,41.5,\n3,1,,0\n");
        let rates: Vec<_> = rows.iter().map(|row| row.rate.as_bps()).collect();
        assert_eq!(rates, [7000, 7000, 7000, 1]);
        assert_eq!(rows[1].rtt, None);
        assert_eq!(rows[3].rtt, Some(Duration::from_micros(41_500)));
        let losses: Vec<_> = rows.iter().map(|row| row.loss).collect();
        assert_eq!(losses, [None, Some(0.5), Some(0.5), Some(0.0)]);
    }

    #[test]
    fn columns_come_in_any_order() {
        let rows = steps("loss,bandwidth_bps,t_s\n0.1,5,0\n");
        assert_eq!((rows[0].loss, rows[0].rate), (Some(0.1), Rate::from_bps(5)));
    }

    #[test]
    fn errors_name_the_place() {
        assert_eq!(place("t_s,bandwidth_bps\n0,1\n1,fast\n"), (3, 2));
        assert_eq!(place("t_s,bandwidth_bps\n0,1\n0,1\n"), (3, 1));
        assert_eq!(place("t_s,bandwidth_bps\n0,-1\n"), (2, 2));
        assert_eq!(place("t_s,bandwidth_bps\n,1\n"), (2, 1));
        assert_eq!(place("t_s,bandwidth_bps\n0,1,2\n"), (2, 3));
        assert_eq!(place("t_s,bandwidth_bps\n0,nan\n"), (2, 2));
        assert_eq!(place("t_s,bandwidth_bps\n0,1\n4e6,1\n"), (3, 1));
        assert_eq!(place("t_s,bandwidth_bps,loss\n0,1,1.5\n"), (2, 3));
        assert_eq!(place("t_s,speed\n0,1\n"), (1, 2));
        assert_eq!(place("t_s,t_s\n0,1\n"), (1, 2));
        assert_eq!(place("t_s\n0\n"), (1, 1));
        let text = Trace::from_csv("test", "t_s,bandwidth_bps\n0,fast\n")
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "line 2, column 2: found 'fast', expected a rate in bits per second from 0 to 1e15, or nothing"
        );
    }

    #[test]
    fn nothing_measured_is_an_error() {
        for text in [
            "",
            "# only a comment\n",
            "t_s,bandwidth_bps\n",
            "t_s,bandwidth_bps\n0,\n",
        ] {
            let error = Trace::from_csv("test", text).unwrap_err();
            assert!(
                matches!(error, ParseTraceError::Empty { .. }),
                "{text:?}: {error}"
            );
        }
    }
}
