//! The progress of a simulation, on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use slidegate_sim::Source;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// A bar on standard error, or nothing if that is not a terminal.
#[derive(Debug)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new(source: &Source) -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match source.progress() {
            Some(_) => (ProgressBar::new(STEPS), "{bar:40} {percent:>3} %  {msg}  {eta} left"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}"),
        };
        let style = ProgressStyle::with_template(template);
        Self(Some(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))))
    }

    /// A spinner for work of unknown length.
    pub(super) fn spinner() -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        Self(Some(ProgressBar::new_spinner().with_style(style)))
    }

    /// Shows what is being done.
    pub(super) fn say(&self, message: impl FnOnce() -> String) {
        let Some(bar) = &self.0 else { return };
        bar.set_message(message());
        bar.tick();
    }

    pub(super) fn show(&self, source: &Source, requests: u64) {
        let Some(bar) = &self.0 else { return };
        if let Some(share) = source.progress() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the share is between 0 and 1"
            )]
            bar.set_position((share * 1000.0) as u64);
        }
        bar.set_message(format!("{requests} requests"));
        bar.tick();
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
