//! Draws the page of `top`.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};
use serde_json::Value;

use super::app::{App, number, text};

/// The most policies that are shown, so that keys have room.
const POLICY_ROWS_MAX: u16 = 8;
/// The width of the bar of a key.
const BAR: usize = 10;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let policies = u16::try_from(app.policies().len()).unwrap_or(u16::MAX);
    let rows = policies.clamp(1, POLICY_ROWS_MAX) + 2;
    let [head, of_policies, of_keys, foot] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Length(rows),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_head(frame, head, app);
    draw_policies(frame, of_policies, app);
    if app.has_help {
        frame.render_widget(Paragraph::new(HELP).block(block("Help")), of_keys);
    } else {
        draw_keys(frame, of_keys, app);
    }
    draw_foot(frame, foot, app);
}

const HELP: &str = "s        sort by rate, denied, closest to the limit, name
/        filter policies and keys; Enter keeps it, Esc clears it
p        pause
j k      scroll keys, also with the arrow and page keys
q        quit";

fn draw_head(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let state = &app.state;
    let per_second = |name: &str| rate(number(&state["totals"]["per_second"], name));
    let latency = |name: &str| seconds(state["latency"][name].as_f64());
    let memory = &state["memory"];
    let share = match number(memory, "budget") {
        0.0 => 0.0,
        budget => number(memory, "bytes") / budget * 100.0,
    };
    let mut first = vec![
        "slidegate ".bold(),
        Span::raw(format!(
            "{}  up {}  ",
            text(state, "version"),
            seconds(state["uptime"].as_f64())
        )),
    ];
    for store in state["stores"].as_array().into_iter().flatten() {
        let name = text(store, "name");
        // A half-open breaker finds out whether the store replies again.
        let is_retried = store["stats"]["rate_limit_redis_breaker_state"] == 1;
        first.push(if store["is_available"] == false {
            Span::raw(format!("{name} DOWN  ")).red().bold()
        } else if is_retried {
            Span::raw(format!("{name} RETRY  ")).yellow().bold()
        } else {
            Span::raw(format!("{name} ok  ")).green()
        });
    }
    if state["config"]["last_reload"]["ok"] == false {
        first.push("reload failed".red().bold());
    }
    let second = Line::from(vec![
        "allowed ".dark_gray(),
        format!("{}/s  ", per_second("allowed")).blue().bold(),
        "denied ".dark_gray(),
        format!("{}/s  ", per_second("denied")).red().bold(),
        "would be denied ".dark_gray(),
        format!("{}/s", per_second("would_be_denied")).yellow().bold(),
    ]);
    let third = Line::from(format!(
        "p50 {}  p99 {}  keys {}  memory {share:.1}%  evicted {}  overflowed {}",
        latency("p50"),
        latency("p99"),
        count(number(memory, "keys")),
        count(number(memory, "evictions")),
        count(number(memory, "overflowed")),
    ));
    frame.render_widget(Paragraph::new(vec![Line::from(first), second, third]), area);
}

fn draw_policies(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rows = app.policies();
    let hidden = rows.len().saturating_sub(usize::from(POLICY_ROWS_MAX));
    let row = |policy: &&Value| {
        let mode = match text(policy, "mode") {
            "percentage" => format!("{}%", number(policy, "percent")),
            mode => mode.to_owned(),
        };
        let per_second = |name: &str| rate(number(&policy["per_second"], name));
        let row = Row::new([
            shown(text(policy, "name")),
            mode,
            quotas(policy),
            right(&per_second("allowed")),
            right(&per_second("denied")),
            right(&per_second("would_be_denied")),
        ]);
        let is_denying = number(&policy["per_second"], "denied") > 0.0;
        if is_denying { row.style(Style::new().fg(Color::Red)) } else { row }
    };
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(9),
        Constraint::Fill(2),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let title = match hidden {
        0 => "Policies, requests per second".to_owned(),
        hidden => format!("Policies, requests per second ({hidden} more)"),
    };
    let rows = rows.iter().take(usize::from(POLICY_ROWS_MAX)).map(row);
    let head = [
        "policy".into(),
        "mode".into(),
        "quotas".into(),
        right("allowed"),
        right("denied"),
        right("would"),
    ];
    let table = Table::new(rows, widths).header(header(head)).block(block(&title));
    frame.render_widget(table, area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, app: &mut App) {
    let all = app.keys().len();
    let visible = usize::from(area.height.saturating_sub(2));
    app.scroll = app.scroll.min(all.saturating_sub(visible));
    let row = |key: &&Value| {
        let (limit, remaining) = (number(key, "limit"), number(key, "remaining"));
        let used = (limit - remaining).max(0.0);
        let row = Row::new([
            shown(text(key, "key")),
            shown(text(key, "policy")),
            right(&rate(number(key, "per_second"))),
            right(&rate(number(key, "denied_per_second"))),
            format!("{} {}/{}", bar(used, limit), count(used), count(limit)),
        ]);
        if key["is_over"] == true { row.style(Style::new().fg(Color::Red)) } else { row }
    };
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(22),
    ];
    let title = format!("Keys by {}", app.sort.name());
    let keys = app.keys();
    let rows = keys.iter().skip(app.scroll).take(visible).map(row);
    let head = ["key".into(), "policy".into(), right("per s"), right("denied"), "used".into()];
    let table = Table::new(rows, widths).header(header(head)).block(block(&title));
    frame.render_widget(table, area);
    if all == 0 {
        let words =
            if app.filter.is_empty() { "no requests yet" } else { "no key matches the filter" };
        let below = Rect { y: area.y.saturating_add(2), height: 1, ..area }.intersection(area);
        frame.render_widget(Paragraph::new(words).dark_gray(), below);
    }
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let line = if app.is_typing {
        Line::from(format!("filter: {}█", app.filter)).bold()
    } else if let Some(error) = &app.error {
        Line::from(format!("no state: {error}")).red().bold()
    } else {
        let mut words = vec![Span::raw("q quit  s sort  / filter  p pause  ? help")];
        if app.is_paused {
            words.push("  PAUSED".yellow().bold());
        }
        if !app.filter.is_empty() {
            words.push(format!("  filter: {}", app.filter).cyan());
        }
        Line::from(words)
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn block(title: &str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn header<const N: usize>(names: [String; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::DIM))
}

/// Replaces control characters, which could change the terminal.
fn shown(value: &str) -> String {
    value.chars().map(|letter| if letter.is_control() { '\u{FFFD}' } else { letter }).collect()
}

/// Aligns a number to the right of its column.
fn right(value: &str) -> String {
    format!("{value:>9}")
}

fn quotas(policy: &Value) -> String {
    let quotas = policy["quotas"].as_array().into_iter().flatten();
    quotas.map(|quota| text(quota, "text")).collect::<Vec<_>>().join(", ")
}

fn bar(used: f64, limit: f64) -> String {
    let share = if limit > 0.0 { (used / limit).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "it is between 0 and the width of the bar"
    )]
    let full = (share * BAR as f64).round() as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full.min(BAR)))
}

fn rate(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { count(value) }
}

pub(super) fn count(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2}G", value / 1e9),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e5 => format!("{:.0}k", value / 1e3),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 1e-3 => format!("{:.0}µs", value * 1e6),
        Some(value) if value < 1.0 => format!("{:.1}ms", value * 1e3),
        Some(value) if value < 120.0 => format!("{value:.0}s"),
        Some(value) if value < 7200.0 => format!("{:.0}min", value / 60.0),
        Some(value) => format!("{:.1}h", value / 3600.0),
    }
}

/// Returns the lines of a page, without spaces at the end.
pub(super) fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content.chunks(width).map(|line| {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    // The help of the last line is of no use here.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}
