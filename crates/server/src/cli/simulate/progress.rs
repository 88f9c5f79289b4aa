//! The progress of a simulation, on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar.
const STEPS: u64 = 1000;

/// A bar or a spinner on standard error, or nothing if that is not a terminal.
#[derive(Debug)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A bar if the whole is known, otherwise a spinner.
    pub(super) fn new(is_known: bool) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = if is_known {
            (ProgressBar::new(STEPS), "{bar:40} {percent:>3} %  {msg}  {eta} left")
        } else {
            (ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}")
        };
        let style = ProgressStyle::with_template(template);
        Self(Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))))
    }

    /// Shows the share that is done, if known, and what was done. `message` is called on a terminal only.
    pub(super) fn show(&self, share: Option<f64>, message: impl FnOnce() -> String) {
        let Some(bar) = &self.0 else { return };
        if let Some(share) = share {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the share is between 0 and 1"
            )]
            bar.set_position((share * 1000.0) as u64);
        }
        bar.set_message(message());
        bar.tick();
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
