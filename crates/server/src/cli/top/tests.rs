//! The table, its keys and its filter.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::*;

fn policy(name: &str, allowed: f64, denied: f64) -> Value {
    json!({
        "name": name, "mode": "enforce", "quotas": [{"text": "10/minute"}],
        "per_second": {"allowed": allowed, "denied": denied, "would_be_denied": 0.0},
    })
}

fn key(name: &str, per_second: f64, denied: f64, remaining: u64) -> Value {
    json!({
        "key": name, "policy": "api", "per_second": per_second, "denied_per_second": denied,
        "limit": 100, "remaining": remaining, "is_over": denied > 0.0,
    })
}

fn state() -> Value {
    json!({
        "version": "1.2.3", "uptime": 3600,
        "totals": {"per_second": {"allowed": 1234.0, "denied": 56.0, "would_be_denied": 7.0}},
        "latency": {"p50": 0.000_002, "p99": 0.0035},
        "memory": {"keys": 42, "bytes": 1024, "budget": 4096, "evictions": 0, "overflowed": 0},
        "stores": [{"name": "memory", "is_available": true}, {"name": "shared", "is_available": false}],
        "policies": [policy("api", 1200.0, 0.0), policy("login", 34.0, 56.0)],
        "keys": {
            "hottest": [key("alice", 30.0, 0.0, 70), key("bob\u{1b}[2J", 5.0, 4.0, 0)],
            "closest": [key("bob\u{1b}[2J", 5.0, 4.0, 0), key("alice", 30.0, 0.0, 70)],
        },
    })
}

fn app() -> App {
    let mut app = App::new("");
    app.receive(Ok(state()));
    app
}

fn press(app: &mut App, code: KeyCode) -> Next {
    app.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells = buffer.content.chunks(usize::from(width));
    cells
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>() + "\n")
        .collect()
}

#[test]
fn everything_is_visible_at_80_by_24() {
    let screen = screen(&mut app(), 80, 24);
    for words in [
        "slidegate 1.2.3",
        "shared DOWN",
        "allowed 1234/s",
        "denied 56/s",
        "would be denied 7.0/s",
        "p99 3.5ms",
        "memory 25.0%",
        "login",
        "10/minute",
        "alice",
        "30/100",
        "100/100",
        "q quit",
    ] {
        assert!(screen.contains(words), "{words:?} is missing:\n{screen}");
    }
    assert!(!screen.contains('\u{1b}'), "a key reached the terminal unescaped");
}

#[test]
fn a_store_that_is_being_retried_is_not_called_ok() {
    let mut state = state();
    state["stores"][1] = json!({
        "name": "shared", "is_available": true, "stats": {"rate_limit_redis_breaker_state": 1},
    });
    let mut app = App::new("");
    app.receive(Ok(state));
    let screen = screen(&mut app, 80, 24);
    assert!(screen.contains("memory ok") && screen.contains("shared RETRY"), "{screen}");
}

#[test]
fn rows_are_sorted_and_filtered() {
    let mut app = app();
    let first = |app: &App| app.keys()[0]["key"].as_str().unwrap().to_owned();
    assert_eq!(first(&app), "alice");
    press(&mut app, KeyCode::Char('s'));
    assert!(first(&app).starts_with("bob"));
    assert_eq!(app.policies()[0]["name"], "login");
    for letter in ['/', 'A', 'L', 'I'] {
        press(&mut app, KeyCode::Char(letter));
    }
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.keys().len(), 1);
    assert!(screen(&mut app, 80, 24).contains("filter: ALI"));
    press(&mut app, KeyCode::Char('/'));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.keys().len(), 2);
}

#[test]
fn pause_keeps_the_state_and_errors_are_shown() {
    let mut app = app();
    press(&mut app, KeyCode::Char('p'));
    app.receive(Ok(json!({"policies": []})));
    assert_eq!(app.policies().len(), 2);
    assert!(screen(&mut app, 80, 24).contains("PAUSED"));
    app.receive(Err(io::Error::other("connection refused")));
    assert!(screen(&mut app, 80, 24).contains("no state: connection refused"));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Next::Quit);
}

#[test]
fn any_size_and_any_state_can_be_drawn() {
    for (width, height) in [(1, 1), (10, 3), (80, 24), (300, 100)] {
        screen(&mut app(), width, height);
        screen(&mut App::new("x"), width, height);
    }
}

#[test]
fn an_error_during_a_pause_goes_away_when_the_daemon_replies_again() {
    let mut app = app();
    press(&mut app, KeyCode::Char('p'));
    app.receive(Err(io::Error::other("connection refused")));
    assert!(app.error.is_some());
    app.receive(Ok(json!({})));
    assert_eq!((app.error, app.state), (None, state()));
}
