//! What `top` shows, and what keys of the keyboard change.

use std::io;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

/// What to do after a key was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Quit,
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Denied,
    Used,
    Name,
}

/// What is shown.
#[derive(Debug)]
pub(super) struct App {
    pub(super) state: Value,
    pub(super) error: Option<String>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    /// The first key that is shown.
    pub(super) scroll: usize,
}

impl App {
    pub(super) fn new(filter: &str) -> Self {
        Self {
            state: Value::Null,
            error: None,
            sort: Sort::Rate,
            filter: filter.to_owned(),
            is_typing: false,
            is_paused: false,
            has_help: false,
            scroll: 0,
        }
    }

    /// Shows another state, unless paused. Errors are shown in any case, until the next state is received.
    pub(super) fn receive(&mut self, state: io::Result<Value>) {
        match state {
            Ok(_) if self.is_paused => self.error = None,
            Ok(state) => (self.state, self.error) = (state, None),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Next::Quit;
        }
        if self.is_typing {
            match key.code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) if self.filter.len() < 128 => self.filter.push(letter),
                _ => {}
            }
            self.scroll = 0;
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/' | 'f') => self.is_typing = true,
            KeyCode::Char('?' | 'h') => self.has_help = !self.has_help,
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Next::Stay
    }

    /// Returns the policies that match, in order.
    pub(super) fn policies(&self) -> Vec<&Value> {
        let mut rows = self.rows(&self.state["policies"], &["name", "mode"]);
        let sum = |row: &Value, names: &[&str]| -> f64 {
            names.iter().map(|name| row["per_second"][*name].as_f64().unwrap_or(0.0)).sum()
        };
        let denied: &[&str] = &["denied", "would_be_denied"];
        match self.sort {
            Sort::Rate | Sort::Used => {
                order(&mut rows, |row| sum(row, denied) + sum(row, &["allowed"]));
            }
            Sort::Denied => order(&mut rows, |row| sum(row, denied)),
            Sort::Name => rows.sort_by_key(|row| text(row, "name").to_owned()),
        }
        rows
    }

    /// Returns the keys that match, in order.
    pub(super) fn keys(&self) -> Vec<&Value> {
        let list = if self.sort == Sort::Used { "closest" } else { "hottest" };
        let mut rows = self.rows(&self.state["keys"][list], &["key", "policy"]);
        match self.sort {
            Sort::Rate => order(&mut rows, |row| number(row, "per_second")),
            Sort::Denied => order(&mut rows, |row| number(row, "denied_per_second")),
            Sort::Name => rows.sort_by_key(|row| text(row, "key").to_owned()),
            // The daemon has ordered them.
            Sort::Used => {}
        }
        rows
    }

    fn rows<'a>(&self, rows: &'a Value, names: &[&str]) -> Vec<&'a Value> {
        let wanted = self.filter.to_lowercase();
        let matches = |row: &&Value| {
            wanted.is_empty()
                || names.iter().any(|name| text(row, name).to_lowercase().contains(&wanted))
        };
        rows.as_array().into_iter().flatten().filter(matches).collect()
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Rate => Self::Denied,
            Self::Denied => Self::Used,
            Self::Used => Self::Name,
            Self::Name => Self::Rate,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Denied => "denied",
            Self::Used => "closest to the limit",
            Self::Name => "name",
        }
    }
}

/// Sorts by a number, the highest first. Equal rows keep their order.
fn order(rows: &mut [&Value], value: impl Fn(&Value) -> f64) {
    rows.sort_by(|one, other| value(other).total_cmp(&value(one)));
}

pub(super) fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(0.0)
}

pub(super) fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}
