//! `plan`: what a limit needs, computed from measured costs.

mod arguments;
mod measured;
mod model;

use std::io::{self, Write};

pub(super) use self::arguments::PlanArguments;
use self::model::{Plan, grouped_float};
use super::exit;

pub(super) fn run(arguments: &PlanArguments) -> u8 {
    let plan = Plan::new(arguments);
    let mut out = io::stdout().lock();
    let written = if arguments.json {
        serde_json::to_writer_pretty(&mut out, &plan)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        write_text(&plan, &mut out)
    };
    super::config::written(written, exit::OK)
}

fn write_text(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", plan.title)?;
    let names = plan.lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
    let values = plan.lines.iter().map(|line| line.text.len()).max().unwrap_or(0);
    for line in &plan.lines {
        writeln!(out, "{:names$}  {:>values$}  {}", line.name, line.text, line.arithmetic)?;
    }
    writeln!(out, "\nMeasured:")?;
    for number in &plan.measured {
        let value = grouped_float(number.value);
        writeln!(out, "  {value:>9}  {} ({})", number.what, number.source)?;
    }
    writeln!(out)?;
    plan.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}
