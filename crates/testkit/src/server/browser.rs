//! A real browser without a window: Chromium, driven by chromedriver with the `WebDriver` protocol.

use core::fmt::Display;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::folder::Folder;
use super::process::{Process, free_port, require_program};
use super::wait::poll;
use super::{PythonTool, ServerError};

/// The package with axe-core that is closest at hand. Nothing else of it is used.
const AXE: &str = "axe-playwright-python==0.1.8 \
    --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8\n";
/// Prints the script from the package.
const PRINT_AXE: &str = r"
import glob, os, sys
[path] = glob.glob(os.environ['PYTHONPATH'] + '/*/axe.min.js')
sys.stdout.write(open(path, encoding='utf-8').read())
";
/// The longest time for one command, which may load a page. The rules of axe-core take half a second on
/// an idle machine, and a minute if thirty processes compete for two processors.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A browser with one tab. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    port: u16,
    session: String,
    // Dropped last: the profile of the browser is in it.
    driver: Option<Process>,
    folder: Folder,
}

impl Browser {
    /// Starts a browser with a window of this size.
    pub fn start(width: u32, height: u32) -> Result<Self, ServerError> {
        let program = require_program("chromedriver", "chromium chromium-driver")?;
        let folder = Folder::new()?;
        let port = free_port()?;
        let log = folder.join("chromedriver.log");
        let argument = format!("--port={port}");
        let driver = Process::start(&program, &[&argument], &[], &log)?;
        let mut browser = Self { port, session: String::new(), driver: Some(driver), folder };
        poll("chromedriver", || Ok(browser.call("GET", "/status", &Value::Null).ok()))?;
        let profile = browser.folder.join("profile");
        let arguments = [
            "--headless=new".to_owned(),
            // The sandbox needs privileges that a container does not have.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            // A click on an element that still moves would miss it.
            "--force-prefers-reduced-motion".to_owned(),
            format!("--user-data-dir={}", profile.display()),
            format!("--window-size={width},{height}"),
        ];
        let options = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "timeouts": {"script": TIMEOUT.as_millis(), "pageLoad": TIMEOUT.as_millis()},
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let started = browser.call("POST", "/session", &options)?;
        started["sessionId"].as_str().unwrap_or_default().clone_into(&mut browser.session);
        Ok(browser)
    }

    /// Loads a page.
    pub fn open(&self, address: &str) -> Result<(), ServerError> {
        self.command("/url", &json!({"url": address})).map(|_| ())
    }

    /// Runs a script in the page, and returns what it returns.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Result<Value, ServerError> {
        self.command("/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// Runs a script that calls its last argument with the result.
    pub fn run_async(&self, script: &str) -> Result<Value, ServerError> {
        self.command("/execute/async", &json!({"script": script, "args": []}))
    }

    /// Clicks the element that a CSS selector finds, as a user would.
    pub fn click(&self, selector: &str) -> Result<(), ServerError> {
        let element = self.find(selector)?;
        self.command(&format!("/element/{element}/click"), &json!({})).map(|_| ())
    }

    /// Types into the element that a CSS selector finds. `\u{E007}` is the Enter key.
    pub fn type_text(&self, selector: &str, text: &str) -> Result<(), ServerError> {
        let element = self.find(selector)?;
        self.command(&format!("/element/{element}/value"), &json!({"text": text})).map(|_| ())
    }

    /// Returns the text of an element, or nothing if there is none.
    pub fn text(&self, selector: &str) -> Result<String, ServerError> {
        let script = "const found = document.querySelector(arguments[0]); return found ? found.innerText : '';";
        let text = self.run(script, &[json!(selector)])?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Sends a command of the Chrome `DevTools` protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, ServerError> {
        self.command("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Returns what the page has written to the console since the last call.
    pub fn console(&self) -> Result<Vec<Value>, ServerError> {
        let lines = self.command("/se/log", &json!({"type": "browser"}))?;
        Ok(lines.as_array().cloned().unwrap_or_default())
    }

    /// Returns what axe-core finds wrong with the accessibility of the page.
    pub fn accessibility(&self) -> Result<Vec<Value>, ServerError> {
        let script = axe_script()?;
        // Run by the driver, which the page's content security policy does not bind. Without the
        // script, `axe` does not exist, which is an error.
        self.run(&format!("{script}; window.axe = axe;"), &[])?;
        let found = self.run_async(
            "const done = arguments[0]; axe.run(document).then((result) => \
             done(result.violations.map(({id, help, nodes}) => \
             ({id, help, nodes: nodes.map((node) => node.html + ' ' + node.failureSummary)}))), (error) => done([String(error)]));",
        )?;
        Ok(found.as_array().cloned().unwrap_or_default())
    }

    /// Writes the whole page to a PNG file, also what is below the window.
    pub fn screenshot(&self, path: &Path) -> Result<(), ServerError> {
        let size = self.devtools("Page.getLayoutMetrics", &json!({}))?;
        let size = &size["cssContentSize"];
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
        });
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let shot = self.devtools("Page.captureScreenshot", &wanted)?;
        let failed = |error: &dyn Display| ServerError::new(format!("screenshot: {error}"));
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap_or_default());
        fs::write(path, bytes.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
    }

    fn find(&self, selector: &str) -> Result<String, ServerError> {
        let query = json!({"using": "css selector", "value": selector});
        let found = self.command("/element", &query)?;
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| ServerError::new(format!("no element {selector}")))
    }

    fn command(&self, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, ServerError> {
        let failed = |error: io::Error| ServerError::new(format!("chromedriver {path}: {error}"));
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .map_err(failed)?;
        let reply = read_body(BufReader::new(stream)).map_err(failed)?;
        let reply: Value = serde_json::from_slice(&reply)
            .map_err(|error| ServerError::new(format!("chromedriver {path}: {error}")))?;
        match reply["value"]["error"].as_str() {
            Some(error) => {
                let message = reply["value"]["message"].as_str().unwrap_or_default();
                Err(ServerError::new(format!("browser: {path}: {error}: {message}")))
            }
            None => Ok(reply["value"].clone()),
        }
    }
}

/// Returns axe-core, which is installed at first.
fn axe_script() -> Result<&'static str, ServerError> {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    if let Some(script) = SCRIPT.get() {
        return Ok(script);
    }
    let tool = PythonTool::install("axe", AXE)?;
    let printed = tool.command(PRINT_AXE).output();
    let printed = printed.map_err(|error| ServerError::new(format!("axe-core: {error}")))?;
    Ok(SCRIPT.get_or_init(|| String::from_utf8_lossy(&printed.stdout).into_owned()))
}

/// Reads the body of a reply. chromedriver keeps the connection open after it.
fn read_body(mut stream: impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Lets the browser end its processes.
        let _ = self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        self.driver = None;
    }
}
