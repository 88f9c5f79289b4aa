//! `top`: the dashboard in a terminal.

mod app;
mod source;
mod view;

use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::{Terminal, TerminalOptions, Viewport};
use serde_json::Value;

use self::app::{App, Next};
use self::source::Source;
use super::exit;

/// The interval at which the keyboard is polled.
const INPUT_EVERY: Duration = Duration::from_millis(100);
/// Without a terminal, the page has this size.
const ONCE_SIZE: (u16, u16) = (100, 40);

#[derive(Debug, Clone, Args)]
pub(super) struct TopArguments {
    /// The address of the daemon's admin listener.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9090",
        env = "SLIDEGATE_ADMIN_ADDRESS"
    )]
    address: String,
    /// A file with the token to send, if the daemon requires one.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Print the state once, and exit.
    #[arg(long)]
    once: bool,
    /// Print the state once as JSON, and exit.
    #[arg(long)]
    json: bool,
    /// Show only policies and keys that contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

pub(super) fn run(arguments: &TopArguments) -> u8 {
    let result = if arguments.once || arguments.json || !io::stdout().is_terminal() {
        print_once(arguments)
    } else {
        watch(arguments)
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            let address = &arguments.address;
            let mut err = io::stderr().lock();
            let _ = writeln!(err, "slidegate: no state from {address}: {error}");
            let _ = writeln!(
                err,
                "Is the daemon's admin listener there? Use --address for another one, and \
                 --token-file if it wants a token."
            );
            exit::UNAVAILABLE
        }
    }
}

/// Returns the exit code, or the error of reading the state.
///
/// Keys are counted only while a client reads the state, so it is read twice.
fn print_once(arguments: &TopArguments) -> io::Result<u8> {
    let token = arguments.token()?;
    source::read_state(&arguments.address, token.as_deref())?;
    let mut attempts_left = 10;
    let state = loop {
        source::pause(Duration::from_millis(250));
        attempts_left -= 1;
        let state = source::read_state(&arguments.address, token.as_deref())?;
        let has_keys = state["keys"]["hottest"].as_array().is_some_and(|keys| !keys.is_empty());
        if has_keys || attempts_left == 0 {
            break state;
        }
    };
    Ok(super::config::written(write_state(arguments, state), exit::OK))
}

fn write_state(arguments: &TopArguments, state: Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        return writeln!(out, "{state}");
    }
    let mut app = App::new(&arguments.filter);
    app.receive(Ok(state));
    let (width, height) = ONCE_SIZE;
    let backend = TestBackend::new(width, height);
    let viewport = Viewport::Fixed(ratatui::layout::Rect::new(0, 0, width, height));
    let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport })
        .map_err(|error| io::Error::other(error.to_string()))?;
    terminal
        .draw(|frame| view::draw(frame, &mut app))
        .map_err(|error| io::Error::other(error.to_string()))?;
    for line in view::lines(terminal.backend().buffer()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns the exit code, or the error of reading the first state.
fn watch(arguments: &TopArguments) -> io::Result<u8> {
    let token = arguments.token()?;
    // Errors before the first state are reported on the ordinary screen.
    let first = source::read_state(&arguments.address, token.as_deref())?;
    let source = Source::start(arguments.address.clone(), token);
    let mut app = App::new(&arguments.filter);
    app.receive(Ok(first));
    let mut terminal = ratatui::init();
    let result = interact(&mut terminal, &mut app, &source);
    ratatui::restore();
    let failed = |error: io::Error| super::failed(&format!("terminal: {error}"), exit::FAILED);
    Ok(result.map_or_else(failed, |()| exit::OK))
}

fn interact(terminal: &mut DefaultTerminal, app: &mut App, source: &Source) -> io::Result<()> {
    loop {
        while let Some(state) = source.next() {
            app.receive(state);
        }
        terminal.draw(|frame| view::draw(frame, app))?;
        if !event::poll(INPUT_EVERY)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && app.press(key) == Next::Quit
        {
            return Ok(());
        }
    }
}

impl TopArguments {
    fn token(&self) -> io::Result<Option<String>> {
        let read = |path: &PathBuf| {
            let token = std::fs::read_to_string(path);
            token.map_err(|error| {
                io::Error::other(format!("token file {}: {error}", path.display()))
            })
        };
        Ok(self.token_file.as_ref().map(read).transpose()?.map(|token| token.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests;
