//! The report in a terminal.

use std::io::{self, Write};

use slidegate_sim::number::to_whole;
use slidegate_sim::report::{grouped, percent, write_columns};

use super::{Ending, Report, WrongReport};
use crate::audit::Fault;

/// The most wrong windows of the table.
const WINDOWS_SHOWN: usize = 10;

impl Report {
    /// Writes the report as text.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.target)?;
        writeln!(out, "{} loop, {} connections, {}", self.pace, self.connections, self.keys)?;
        writeln!(out)?;
        let rate = |rate: f64| grouped(to_whole(rate.round()));
        let requested = match self.requested_rate {
            Some(requested) => format!(" of {} requested", rate(requested)),
            None => String::new(),
        };
        writeln!(
            out,
            "rate      {} decisions per second{requested}, for {:.1} s",
            rate(self.achieved_rate),
            self.seconds
        )?;
        writeln!(
            out,
            "requests  {}: {} allowed, {} denied ({}), {} without a decision",
            grouped(self.requests),
            grouped(self.allowed),
            grouped(self.denied),
            percent(self.denied_share),
            grouped(self.failed)
        )?;
        for (kind, failure) in &self.failures {
            writeln!(out, "          {} {kind}: {}", grouped(failure.count), failure.first)?;
        }
        if self.unsent > 0 {
            writeln!(
                out,
                "          {} were due and not sent, and are not in the times below: the target is too slow",
                grouped(self.unsent)
            )?;
        }
        match self.ending {
            Ending::Complete => {}
            Ending::Interrupted => writeln!(out, "          interrupted before the end")?,
            Ending::Full => {
                writeln!(out, "          ended early: there is no memory to check more requests")?;
            }
        }
        writeln!(out)?;
        let row = |name: &str, values: &super::Latencies| {
            let cells = values.named().map(|(_, seconds)| format_time(seconds));
            core::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
        };
        let mut rows = vec![row("latency", &self.latency)];
        if self.requested_rate.is_some() {
            rows.push(row("service time", &self.service_time));
        }
        let names = self.latency.named().map(|(name, _)| name);
        let header: Vec<&str> = core::iter::once("").chain(names).collect();
        write_columns(&header, rows, out)?;
        writeln!(out)?;
        match &self.wrong {
            Some(wrong) => wrong.write(out),
            None => writeln!(
                out,
                "wrong decisions: not checked, because the limit is not known (--quota)"
            ),
        }
    }
}

impl WrongReport {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "wrong decisions under {}: {} windows over the limit ({} requests wrongly allowed), {} under it ({} \
             wrongly denied), {} keys",
            self.quotas.join(", "),
            grouped(self.windows_over),
            grouped(self.wrongly_allowed),
            grouped(self.windows_under),
            grouped(self.wrongly_denied),
            grouped(self.keys)
        )?;
        if self.windows.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let rows = self.windows.iter().take(WINDOWS_SHOWN).map(|window| {
            let passed = match window.fault {
                Fault::Over => format!("at least {}", grouped(window.units)),
                Fault::Under => format!("at most {}", grouped(window.units)),
            };
            vec![
                format!("key {}", window.key),
                passed,
                grouped(window.limit),
                format!("{:.3} s", window.from.max(0.0)),
                format!("{:.3} s", window.until),
            ]
        });
        write_columns(&["window of", "passed", "limit", "from", "until"], rows.collect(), out)
    }
}

/// A time with three digits and its unit.
pub(super) fn format_time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => return "0".to_owned(),
        under if under < 1e-3 => (seconds * 1e6, "µs"),
        under if under < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [0.0, 1.234e-6, 45.67e-6, 0.000_999, 0.012_34, 0.5, 12.345];
        let texts = times.map(format_time);
        assert_eq!(texts, ["0", "1.23 µs", "45.7 µs", "999 µs", "12.3 ms", "500 ms", "12.3 s"]);
    }
}
