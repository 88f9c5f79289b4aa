//! Runs this program under valgrind.

use std::process::Command;

use crate::Failure;

/// Instructions of a whole run of this program's command `child` with `checks` checks.
pub(crate) fn count(child: &str, subject: &str, checks: u64) -> Result<f64, Failure> {
    run(&[], child, subject, checks)
}

fn run(options: &[&str], child: &str, subject: &str, checks: u64) -> Result<f64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(options);
    command.arg(std::env::current_exe()?);
    command.args([child, subject, &checks.to_string()]);
    let output = command.output().map_err(|error| format!("cannot run valgrind: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{subject} under valgrind: {}\n{report}", output.status).into());
    }
    parse(&report).ok_or_else(|| format!("valgrind did not say how many:\n{report}").into())
}

/// Instructions of what this program's command `child` does in functions whose name has `within` in it.
#[cfg(feature = "services")]
pub(crate) fn count_within(
    within: &str,
    child: &str,
    subject: &str,
    checks: u64,
) -> Result<f64, Failure> {
    run(&[&format!("--toggle-collect=*{within}*")], child, subject, checks)
}

/// The count in a line such as `==4711== Collected : 48297`.
fn parse(report: &str) -> Option<f64> {
    let line = report.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        let report = "==1== Events    : Ir\n==1== Collected : 48297\n==1== \n";
        assert_eq!(parse(report), Some(48_297.0));
        assert_eq!(parse("==1== \n"), None);
    }
}
