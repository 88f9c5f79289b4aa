//! Readers of the page: with a keyboard, with a phone, and with a hostile network.

use serde_json::{Value, json};
use slidegate_testkit::server::{Browser, poll};

use super::{POLICIES, becomes_hot, is_clean, opened, page, shows};
use crate::process::{Daemon, Folder};

/// Presses a key of the keyboard, whatever has the focus.
fn press(browser: &Browser, key: &str, code: u32, text: &str) {
    for kind in ["keyDown", "keyUp"] {
        let event = json!({
            "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
        });
        browser.devtools("Input.dispatchKeyEvent", &event).unwrap();
    }
}

fn tab(browser: &Browser) {
    press(browser, "Tab", 9, "");
}

/// What has the focus: its id or text, and whether the focus can be seen.
fn focus(browser: &Browser) -> (String, bool) {
    let script = "const one = document.activeElement; \
                  return [one.id || one.innerText, getComputedStyle(one).outlineStyle]";
    let found = browser.run(script, &[]).unwrap();
    (found[0].as_str().unwrap().to_owned(), found[1] != "none")
}

/// Moves the focus to an element with the Tab key.
fn tab_to(browser: &Browser, wanted: &str) {
    for _ in 0..60 {
        tab(browser);
        let (name, is_visible) = focus(browser);
        assert!(is_visible || name == "main", "the focus on {name:?} is invisible");
        if name == wanted {
            return;
        }
    }
    panic!("the Tab key does not reach {wanted}");
}

fn is_open(browser: &Browser, dialog: &str) -> bool {
    let script = "return document.getElementById(arguments[0]).open";
    browser.run(script, &[json!(dialog)]).unwrap() == json!(true)
}

fn becomes(browser: &Browser, dialog: &str, open: bool) {
    poll(dialog, || Ok((is_open(browser, dialog) == open).then_some(()))).unwrap();
}

#[test]
fn a_key_is_opened_and_reset_with_the_keyboard_alone() {
    let folder = Folder::new("dashboard_keyboard");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = opened(&daemon);
    becomes_hot(&daemon, "api", "alice", "alice");
    daemon.allowed("api", "alice", 5);
    shows(&browser, "#key-rows", "alice");
    tab(&browser);
    assert_eq!(focus(&browser).0, "Skip to the content");
    tab_to(&browser, "alice");
    press(&browser, "Enter", 13, "\r");
    becomes(&browser, "key-dialog", true);
    tab_to(&browser, "key-reset");
    press(&browser, "Enter", 13, "\r");
    becomes(&browser, "confirm-dialog", true);
    assert_eq!(focus(&browser).0, "confirm-no", "Enter alone must not reset");
    press(&browser, "Escape", 27, "");
    becomes(&browser, "confirm-dialog", false);
    assert!(!daemon.check("api", "alice"), "it was reset without a confirmation");
    press(&browser, "Enter", 13, "\r");
    becomes(&browser, "confirm-dialog", true);
    tab_to(&browser, "confirm-yes");
    press(&browser, "Enter", 13, "\r");
    shows(&browser, "#key-note", "was reset");
    press(&browser, "Escape", 27, "");
    becomes(&browser, "key-dialog", false);
    assert_eq!(focus(&browser).0, "alice", "the focus returns to where it was");
    assert!(daemon.check("api", "alice"));
}

#[test]
fn on_a_phone_nothing_is_cut_off() {
    let folder = Folder::new("dashboard_phone");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = Browser::start(1280, 1000).unwrap();
    let phone = json!({"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true});
    browser.devtools("Emulation.setDeviceMetricsOverride", &phone).unwrap();
    browser.open(&page(daemon.announced("dashboard"))).unwrap();
    shows(&browser, "#status", "live");
    let long = "a-very-long-key-without-spaces-such-as-a-session-token-or-an-url-0123456789";
    becomes_hot(&daemon, "api", long, long);
    shows(&browser, "#key-rows", "a-very-long-key");
    let cut = "const wide = document.documentElement.clientWidth; \
         return [...document.querySelectorAll('header *, main *')] \
         .filter((one) => !one.closest('.scroll, svg, .hidden, .skip')) \
         .filter((one) => one.getBoundingClientRect().right > wide + 1) \
         .map((one) => one.outerHTML.slice(0, 120))";
    assert_eq!(browser.run(cut, &[]).unwrap(), json!([]));
    let sideways = "return document.documentElement.scrollWidth - window.innerWidth";
    assert!(browser.run(sideways, &[]).unwrap().as_i64().unwrap() <= 0);
    is_clean(&browser, "phone");
    browser.run("document.querySelector('#key-rows button').click()", &[]).unwrap();
    becomes(&browser, "key-dialog", true);
    let inside = "const box = document.getElementById('key-dialog').getBoundingClientRect(); \
         return box.left >= 0 && box.right <= window.innerWidth";
    assert_eq!(browser.run(inside, &[]).unwrap(), json!(true));
    is_clean(&browser, "phone-key");
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_runs_no_other_script() {
    let folder = Folder::new("dashboard_policy");
    let daemon = Daemon::with_config(&folder.write("limits.yaml", POLICIES));
    let browser = Browser::start(1280, 1000).unwrap();
    let address = page(daemon.announced("dashboard"));
    browser.open(&address).unwrap();
    shows(&browser, "#status", "live");
    let loaded = "return performance.getEntriesByType('resource').map((one) => one.name)";
    let loaded = browser.run(loaded, &[]).unwrap();
    let loaded: Vec<&str> = loaded.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(loaded.len() >= 2, "{loaded:?}");
    assert!(loaded.iter().all(|name| name.starts_with(&address)), "{loaded:?}");
    is_clean(&browser, "empty");
    // What an attacker could insert is not run, and nothing leaves the page.
    let inject = "const done = arguments[0]; let blocked = []; \
         document.addEventListener('securitypolicyviolation', (event) => { \
           blocked.push(event.effectiveDirective); if (blocked.length === 3) done(blocked.sort()); }); \
         const script = document.createElement('script'); \
         script.textContent = 'window.hacked = 1'; document.body.append(script); \
         const image = document.createElement('img'); \
         image.src = 'http://192.0.2.1/x.png'; document.body.append(image); \
         fetch('http://192.0.2.1/').catch(() => {});";
    let blocked = browser.run_async(inject).unwrap();
    assert_eq!(blocked, json!(["connect-src", "img-src", "script-src-elem"]));
    assert_eq!(browser.run("return window.hacked === undefined", &[]).unwrap(), json!(true));
}
