//! Access to the data listeners as configured, and the token of the admin listener.

use super::report::{Finding, Report};
use super::settings::{ListenSettings, Settings};
use super::source::Span;
use super::table::{Reader, given, section};
use super::yaml::Node;
use crate::access::{AccessRules, Exposure, Scope, Scopes, Token};

section! {
    /// Access to the data listeners.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AccessSettings, ACCESS = "access to the data listeners" {
        /// Tokens of clients, and what each allows. They are read again with each reload.
        key tokens = List(&Section(&TOKEN), 64), default "[]",
            example "[{file: app.token, scopes: [check]}]";
        /// What requests without a token or a client certificate may do. `[]` is nothing.
        anonymous: Option<Vec<Scope>> = List(&Choice(Scope::KEYWORDS), 3),
            absent "everything on loopback if there are no `tokens`, otherwise `check`",
            example "[check, look]";
        /// Names by which clients call the HTTP and admin listeners, besides addresses and
        /// `localhost`. On loopback, requests for other names are refused; elsewhere only if there
        /// are any.
        allowed_hosts: Vec<String> = List(&Leaf(&HOST), 256), default "[]",
            example "[limits.internal]";
        /// Tokens, and what each allows.
        let tokens: Vec<(Token, Scopes)> = tokens, else Vec::new();
    }
}

section! {
    static TOKEN = "a token" {
        /// A file with the token, at least 16 characters.
        key file = Leaf(&PATH), absent "`variable` is set", example "app.token";
        /// The environment variable that contains the token.
        key variable = Leaf(&TEXT), absent "`file` is set", example "LIMITS_TOKEN";
        /// What it allows: `check` takes units, `look` reads what counts against a key, `change`
        /// resets, refunds and settles.
        key scopes = List(&Choice(Scope::KEYWORDS), 3), required, example "[check, look]";
    }
}

impl AccessSettings {
    /// Returns the rules that listeners apply.
    pub fn rules(&self) -> AccessRules {
        let anonymous = self.anonymous.as_ref();
        AccessRules {
            tokens: self.tokens.clone(),
            anonymous: anonymous.map(|scopes| scopes.iter().copied().collect()),
        }
    }
}

fn tokens(node: &Node, reader: &mut Reader<'_>) -> Vec<(Token, Scopes)> {
    let items = node.get("tokens").map(Node::items).unwrap_or_default();
    items.iter().filter_map(|item| read_token(item, reader)).collect()
}

fn read_token(node: &Node, reader: &mut Reader<'_>) -> Option<(Token, Scopes)> {
    let scopes: Vec<Scope> = given(&TOKEN, "scopes", node, reader)?;
    let Reader { files, report } = reader;
    let token = match (node.get("file"), node.get("variable")) {
        (Some(file), None) => token_file(file, reader)?,
        (None, Some(variable)) => {
            let name = &variable.as_scalar()?.text;
            if !files.secrets {
                return None;
            }
            let Some(value) = files.variable(name) else {
                let message = format!("the variable {name} is not set");
                report.error(variable.span, "token", message).help("set it, or use `file`");
                return None;
            };
            checked(value.as_bytes(), variable.span, report)?
        }
        _ => {
            let message = "a token must have exactly one of `file` and `variable`";
            report
                .error(node.span, "one-of", message)
                .help("set one of them, and remove the other");
            return None;
        }
    };
    Some((token, scopes.into_iter().collect()))
}

/// Reads the token of the admin listener.
pub(super) fn admin_token(node: &Node, reader: &mut Reader<'_>) -> Option<Token> {
    token_file(node.get("token_file")?, reader)
}

fn token_file(file: &Node, reader: &mut Reader<'_>) -> Option<Token> {
    let content = reader.files.content(file, reader.report)?;
    checked(&content, file.span, reader.report)
}

fn checked(text: &[u8], span: Span, report: &mut Report) -> Option<Token> {
    match Token::new(text) {
        Ok(token) => Some(token),
        Err(problem) => {
            report.error(span, "token", problem).help("for example: openssl rand -hex 32");
            None
        }
    }
}

/// Reports the listeners beyond loopback on which requests without a token may only check, and those
/// on which they may change counts.
pub(super) fn check_data_listeners(root: &Node, settings: &Settings, report: &mut Report) {
    let ListenSettings { http, grpc, resp, .. } = settings.listen;
    let verifies =
        |tls: Option<&super::TlsSettings>| tls.is_some_and(|tls| tls.client_authority.is_some());
    let tls = settings.tls.as_ref();
    let has_tokens = root.find("access.tokens").is_some_and(|tokens| !tokens.items().is_empty());
    for (name, address, tls) in [
        ("http", http, tls),
        ("grpc", grpc, settings.grpc_tls.as_ref().or(tls)),
        ("resp", resp, tls),
    ] {
        let Some(address) = address else { continue };
        if Exposure::new(address, verifies(tls)) != Exposure::Network {
            continue;
        }
        let span = root.find(&format!("listen.{name}")).map_or(root.span, |node| node.span);
        let finding: Finding<'_> = match &settings.access.anonymous {
            Some(scopes) if scopes.contains(&Scope::Change) => {
                let message = format!(
                    "every client that reaches {address} may reset and refund the units of all keys"
                );
                report.warning(span, "data-open", message)
            }
            None if !has_tokens && !report.has("data-closed") => {
                let message = format!(
                    "requests to {address} may only check, because it is not on loopback: peek, \
                     usage, history, reset, refund and settle are off"
                );
                report.note(span, "data-closed", message)
            }
            _ => continue,
        };
        finding.help("set `access.tokens` or `tls.client_authority` to allow it to some clients");
    }
}
