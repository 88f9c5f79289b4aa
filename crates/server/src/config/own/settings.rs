//! Settings of the process.

use crate::config::report::Report;
use crate::config::settings::{ListenSettings, Settings};
use crate::config::table::{Read, Reader};
use crate::config::yaml::Node;

/// Reads all settings of a tree; what is absent is at its default.
pub(in crate::config) fn settings(root: &Node, reader: &mut Reader<'_>) -> Settings {
    let settings = Settings::read(root, reader).unwrap_or_default();
    check_listeners(root, &settings, reader.report);
    check_admin(root, &settings, reader.report);
    settings
}

/// Two listeners on one address would only be found out at the start.
fn check_listeners(root: &Node, settings: &Settings, report: &mut Report) {
    let ListenSettings { http, grpc, resp, admin } = settings.listen;
    let all = [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)];
    for (index, (name, address)) in all.iter().enumerate() {
        // Port 0 is any free one.
        let taken = |other: &&(&str, _)| other.1 == *address;
        let Some(address) = address.filter(|address| address.port() != 0) else { continue };
        let Some((other, _)) = all[..index].iter().find(taken) else { continue };
        let node = [name, other].into_iter().find_map(|name| root.find(&format!("listen.{name}")));
        if let Some(node) = node {
            let message = format!("`{other}` and `{name}` both listen on {address}");
            report.error(node.span, "listeners", message).help("use another port for one of them");
        }
    }
}

/// Beyond loopback, anybody who reaches the port could reset limits.
fn check_admin(root: &Node, settings: &Settings, report: &mut Report) {
    let admin = &settings.admin;
    let verified = admin.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    let guarded = verified || admin.token_file.is_some() || root.find("admin.token_file").is_some();
    let open = settings.listen.admin.is_some_and(|address| !address.ip().is_loopback());
    if let (true, false, Some(node)) = (open, guarded, root.find("listen.admin")) {
        let address = node.as_scalar().map_or("", |scalar| &scalar.text);
        let message = format!("anybody who reaches {address} could use the admin listener");
        let finding = report.error(node.span, "admin-open", message);
        finding
            .help("set `admin.token_file` or `admin.tls.client_authority`, or listen on 127.0.0.1");
    }
}
