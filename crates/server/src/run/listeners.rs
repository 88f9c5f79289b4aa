//! The daemon's listeners.

use core::fmt::Write as _;
use core::pin::pin;
use core::time::Duration;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use slidegate_tower::OverloadGuard;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Audit;
use super::descriptors::ConnectionBudget;
use super::reference_statistics::ReferenceStatistics;
use super::reload::{Reloader, Secrets};
use super::tls::{GRPC, HTTP, PLAIN, ReloadableTls};
use crate::access::{Access, Exposure, HostNames, SharedRules, is_loopback};
use crate::admin::{Access as AdminAccess, AdminState, MetricsOnly, MetricsSource, may_listen};
use crate::config::{
    EnvoySettings, LimitSettings, Loaded, OverloadSettings, Settings, TlsSettings,
};
use crate::dashboard::Dashboard;
use crate::domain;
use crate::engine::Engine;
use crate::grpc::{self, GrpcLimits, Health};
use crate::http::{HttpSettings, HttpState, ServeLimits, Server, ShedLoad};
use crate::net::{
    Activity, AddressLimit, BodyBudget, ConnectionSlot, Connections, Stop, accept_all, listen,
    may_bind,
};
use crate::overload;
use crate::resp::{self, RespLimits};

/// A bound address, plain or with TLS.
struct Listener {
    socket: TcpListener,
    tls: Option<ReloadableTls>,
    address: SocketAddr,
    verifies_clients: bool,
}

/// All configured listeners. They are bound before anything is served, so that an address in use is
/// reported at once.
pub(super) struct Listeners {
    http: Option<Listener>,
    grpc: Option<Listener>,
    resp: Option<Listener>,
    admin: Option<(Listener, AdminAccess)>,
    metrics: Option<Listener>,
    rules: SharedRules,
}

/// What the listeners serve.
pub(super) struct Services<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) settings: &'a Settings,
    pub(super) reloader: &'a Arc<Reloader>,
    pub(super) is_ending: &'a Arc<AtomicBool>,
    pub(super) sources: Vec<MetricsSource>,
    pub(super) audit: Option<&'a Arc<Audit>>,
    pub(super) statistics: &'a ReferenceStatistics,
    pub(super) stop: Stop,
}

impl Listener {
    fn bind(
        name: &str,
        address: Option<SocketAddr>,
        tls: Option<&TlsSettings>,
        protocols: &'static [&'static [u8]],
    ) -> Result<Option<Self>, String> {
        let Some(address) = address else { return Ok(None) };
        let verifies_clients = tls.is_some_and(|tls| tls.client_authority.is_some());
        let tls = tls.map(|tls| ReloadableTls::new(tls, protocols)).transpose()?;
        let socket = listen(name, address)?;
        Ok(Some(Self { socket, tls, address, verifies_clients }))
    }

    /// What its clients may do.
    fn access(&self, rules: &SharedRules) -> Access {
        Access::new(Arc::clone(rules), Exposure::new(self.address, self.verifies_clients))
    }

    /// The names by which its clients may call it.
    fn names(&self, settings: &Settings) -> HostNames {
        HostNames::new(&settings.access.allowed_hosts, is_loopback(self.address))
    }
}

impl Listeners {
    pub(super) fn bind(settings: &Settings) -> Result<Self, String> {
        let (at, tls) = (&settings.listen, settings.tls.as_ref());
        let admin_tls = settings.admin.tls.as_ref();
        let admin = match Listener::bind("admin", at.admin, admin_tls, HTTP)? {
            Some(listener) => {
                let access = admin_access(settings)?.names(listener.names(settings));
                Some((listener, access))
            }
            None => None,
        };
        Ok(Self {
            http: Listener::bind("http", at.http, tls, HTTP)?,
            grpc: Listener::bind("grpc", at.grpc, settings.grpc_tls.as_ref().or(tls), GRPC)?,
            resp: Listener::bind("resp", at.resp, tls, PLAIN)?,
            admin,
            metrics: Listener::bind("metrics", at.metrics, None, HTTP)?,
            rules: Arc::new(ArcSwap::from_pointee(settings.access.rules())),
        })
    }

    /// The secrets that a reload replaces.
    pub(super) fn secrets(&self) -> Secrets {
        let admin = self.admin.as_ref().map(|(listener, _)| listener);
        let all = [self.http.as_ref(), self.grpc.as_ref(), self.resp.as_ref(), admin];
        let with_tls = all.into_iter().flatten().filter_map(|listener| listener.tls.clone());
        Secrets {
            certificates: with_tls.collect(),
            rules: Arc::clone(&self.rules),
            admin: self.admin.as_ref().map(|(_, access)| access.clone()),
        }
    }

    /// Prints the addresses and a command to try.
    pub(super) fn announce(&self, loaded: &Loaded) {
        let address = |listener: Option<&Listener>| listener?.socket.local_addr().ok();
        let is_tls = loaded.settings.tls.is_some();
        let scheme = if is_tls { "https" } else { "http" };
        let mut text = format!("slidegate {}\n", env!("CARGO_PKG_VERSION"));
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name:<16}{value}");
        };
        let http = address(self.http.as_ref());
        if let Some(http) = http {
            line("HTTP API", format!("{scheme}://{http}/v1/check  (described by /openapi.json)"));
            line("forward auth", format!("{scheme}://{http}/auth"));
        }
        if let Some(grpc) = address(self.grpc.as_ref()) {
            line("Envoy gRPC", format!("{grpc}  (rate limit service v3)"));
        }
        if let Some(resp) = address(self.resp.as_ref()) {
            line("Redis protocol", resp.to_string());
        }
        if let Some(admin) = address(self.admin.as_ref().map(|(listener, _)| listener)) {
            let scheme = if loaded.settings.admin.tls.is_some() { "https" } else { "http" };
            line("dashboard", format!("{scheme}://{admin}/dashboard"));
            line("admin", format!("{scheme}://{admin}/metrics"));
        }
        if let Some(metrics) = address(self.metrics.as_ref()) {
            line("metrics alone", format!("http://{metrics}/metrics"));
        }
        line("limits", loaded.spec.counts());
        if let (Some(http), Some(policy), false) = (http, loaded.spec.policies.first(), is_tls) {
            let name = &policy.name;
            let command = format!("curl 'http://{http}/v1/check?policy={name}&key=alice'");
            let _ = write!(text, "\nTry it:\n  {command}\n\n");
        }
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Serves all of them. Each has connections of its own, so that one under attack leaves the others
    /// alone. HTTP and gRPC share one overload guard, because they share the machine.
    pub(super) async fn serve(
        self,
        tasks: &mut JoinSet<()>,
        mut services: Services<'_>,
    ) -> Result<(), String> {
        let mut sources = core::mem::take(&mut services.sources);
        let Services { engine, settings, stop, .. } = &services;
        let number =
            [&self.http, &self.grpc, &self.resp, &self.metrics].into_iter().flatten().count();
        let budget = ConnectionBudget::new(settings.limits.connections, number);
        let mut all = Vec::new();
        let mut pool = |name, max| {
            let limit = address_limit(settings, max, max == budget.data);
            let connections = Connections::with_address_limit(name, max, Some(limit));
            all.push(Arc::clone(&connections));
            connections
        };
        let options = Arc::new(domain::Options::from(*settings));
        let guard = guard_with_metrics(&settings.overload, &mut sources)?;
        let bodies = body_budget(&settings.limits, &mut sources);
        if let Some(listener) = self.http {
            let (access, names) = (listener.access(&self.rules), listener.names(settings));
            let http = http_settings(&services, &options, &bodies);
            let http = HttpSettings { access, names, ..http };
            let state = HttpState::new(Arc::clone(engine), http);
            let handler = ShedLoad::new(state, guard.clone());
            let server = server(listener, Arc::new(handler), settings, pool("http", budget.data));
            tasks.spawn(server.serve(stop.clone().wait()));
        }
        if let Some(listener) = self.grpc {
            let connections = pool("grpc", budget.data);
            let service = grpc::Service::new(Arc::clone(engine), Arc::clone(&options))
                .await
                .message_max(settings.limits.message_max)
                .bodies(Arc::clone(&bodies))
                .connections(Arc::clone(&connections))
                .access(listener.access(&self.rules))
                .guard(guard);
            let (health, envoy) = (service.health(), settings.envoy.clone());
            tasks.spawn(report_health(health, Arc::clone(engine), envoy, stop.clone()));
            let grpc = Protocol::Grpc(service, grpc_limits(settings));
            tasks.spawn(serve_protocol(listener, grpc, connections, stop.clone()));
        }
        if let Some(listener) = self.resp {
            let limits = RespLimits { bodies, ..resp_limits(settings) };
            let resp = Protocol::Resp(Arc::clone(engine), listener.access(&self.rules), limits);
            let connections = pool("resp", budget.data);
            tasks.spawn(serve_protocol(listener, resp, connections, stop.clone()));
        }
        let (access, admin) = self.admin.map(|(listener, access)| (access, listener)).unzip();
        let access = access.unwrap_or_else(AdminAccess::local);
        let of_admin = admin.is_some().then(|| pool("admin", budget.admin));
        let of_metrics =
            self.metrics.is_some().then(|| pool("metrics", budget.admin.min(budget.data)));
        let dashboard = admin.is_some().then(|| dashboard(&services));
        if let Some(dashboard) = &dashboard {
            tasks.spawn(Arc::clone(dashboard).run(stop.clone()));
        }
        let state = admin_state(access, &services, all);
        let state = Arc::new(AdminState { dashboard, sources, ..state });
        if let (Some(listener), Some(connections)) = (admin, of_admin) {
            let server = server(listener, Arc::clone(&state), settings, connections);
            tasks.spawn(server.serve(stop.clone().wait()));
        }
        if let (Some(listener), Some(connections)) = (self.metrics, of_metrics) {
            let server = server(listener, Arc::new(MetricsOnly(state)), settings, connections);
            tasks.spawn(server.serve(stop.clone().wait()));
        }
        Ok(())
    }
}

/// Checks certificates, tokens and addresses, without listening. An address that is in use is not
/// reported.
pub(super) fn check(settings: &Settings) -> Vec<String> {
    let at = &settings.listen;
    let tls = [
        settings.tls.as_ref().filter(|_| at.http.or(at.grpc).or(at.resp).is_some()),
        settings.grpc_tls.as_ref().filter(|_| at.grpc.is_some()),
        settings.admin.tls.as_ref().filter(|_| at.admin.is_some()),
    ];
    let tls = tls.into_iter().flatten().map(|tls| ReloadableTls::new(tls, PLAIN).map(|_| ()));
    let access = at.admin.map(|_| admin_access(settings).map(|_| ()));
    let all = [
        ("http", at.http),
        ("grpc", at.grpc),
        ("resp", at.resp),
        ("admin", at.admin),
        ("metrics", at.metrics),
    ];
    let addresses =
        all.iter().filter_map(|(name, address)| address.map(|address| may_bind(name, address)));
    tls.chain(access).chain(addresses).filter_map(Result::err).collect()
}

fn admin_access(settings: &Settings) -> Result<AdminAccess, String> {
    let has_token = settings.admin.token_file.is_some();
    let has_mtls = settings.admin.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    if let Some(address) = settings.listen.admin {
        may_listen(address, has_token, has_mtls).map_err(|error| error.to_string())?;
    }
    let access = AdminAccess::local();
    access.set(settings.admin.token.clone());
    Ok(access)
}

fn admin_state(
    access: AdminAccess,
    services: &Services<'_>,
    listeners: Vec<Arc<Connections>>,
) -> AdminState {
    let (reloader, engine) = (Arc::clone(services.reloader), Arc::clone(services.engine));
    let statistics = services.statistics.clone();
    let audit = services.audit.map(Arc::clone);
    AdminState {
        unready: vec![Arc::new(move || audit.as_ref()?.denial())],
        pages: vec![
            ("/rlconfig", Arc::new(move || domain::dump(engine.plan().domains()))),
            ("/stats", Arc::new(move || statistics.text())),
        ],
        listeners,
        reloads: Arc::clone(services.reloader.reloads()),
        reload: Some(Arc::new(move |may_remove| reloader.reload(may_remove))),
        is_ending: Arc::clone(services.is_ending),
        ..AdminState::new(Arc::clone(services.engine), access)
    }
}

fn dashboard(services: &Services<'_>) -> Arc<Dashboard> {
    Dashboard::new(
        Arc::clone(services.engine),
        Some(Arc::clone(services.reloader.view())),
        Arc::clone(services.reloader.reloads()),
        Arc::clone(services.is_ending),
    )
}

pub(super) fn guard(settings: &OverloadSettings) -> Result<Option<OverloadGuard>, String> {
    if !settings.enabled {
        return Ok(None);
    }
    let mut builder = OverloadGuard::builder("data")
        .multiple_percent(settings.multiple_percent)
        .queue_max(settings.queue_max)
        .delay_max(settings.delay_max);
    if let Some(most) = settings.concurrency_max {
        builder = builder.concurrency_max(most);
    }
    builder.build().map(Some).map_err(|error| format!("overload: {error}"))
}

fn guard_with_metrics(
    settings: &OverloadSettings,
    sources: &mut Vec<MetricsSource>,
) -> Result<Option<OverloadGuard>, String> {
    let guard = guard(settings)?;
    if let Some(guard) = guard.clone() {
        sources.push(Arc::new(move |page| overload::write_metrics(&guard, page)));
    }
    Ok(guard)
}

/// The maximum of one client at a listener with `max` connections.
fn address_limit(settings: &Settings, max: usize, is_data: bool) -> AddressLimit {
    let wanted = settings.limits.connections_per_address.filter(|_| is_data);
    // By default, one client cannot take all.
    AddressLimit { max: wanted.unwrap_or(max.div_ceil(2)), address: settings.address.clone() }
}

/// The memory for incomplete bodies, of which the largest fits alone.
fn body_budget(limits: &LimitSettings, sources: &mut Vec<MetricsSource>) -> Arc<BodyBudget> {
    let bodies = BodyBudget::new(limits.bodies_max.max(limits.body_max).max(limits.message_max));
    let counted = Arc::clone(&bodies);
    sources.push(Arc::new(move |page| counted.write_metrics(page)));
    bodies
}

fn http_settings(
    services: &Services<'_>,
    envoy: &Arc<domain::Options>,
    bodies: &Arc<BodyBudget>,
) -> HttpSettings {
    let (settings, limits) = (services.settings, &services.settings.limits);
    HttpSettings {
        envoy: Arc::clone(envoy),
        is_ending: Arc::clone(services.is_ending),
        body_max: limits.body_max,
        message_max: limits.message_max,
        bodies: Arc::clone(bodies),
        key_max: limits.key_max,
        batch_max: limits.batch_max,
        wait_max: limits.wait_max,
        client: settings.address.clone(),
        headers: settings.headers.clone(),
        ..HttpSettings::default()
    }
}

fn server<H>(
    listener: Listener,
    handler: Arc<H>,
    settings: &Settings,
    connections: Arc<Connections>,
) -> Server<H> {
    let default = ServeLimits::default();
    let limits = ServeLimits {
        header_timeout: settings.limits.header_timeout,
        streams_max: settings.limits.streams_max,
        // A request that waits for units has time to be sent and answered too.
        request_timeout: default.request_timeout.max(settings.limits.wait_max + WAIT_SPARE),
        ..default
    };
    Server {
        listener: listener.socket,
        handler,
        limits,
        connections,
        tls: listener.tls.map(|tls| tls.shared()),
    }
}

/// The time for a request that waits, besides the wait.
const WAIT_SPARE: Duration = Duration::from_secs(10);

fn grpc_limits(settings: &Settings) -> GrpcLimits {
    GrpcLimits {
        opening_max: settings.limits.header_timeout,
        streams_max: settings.limits.streams_max,
        ..GrpcLimits::default()
    }
}

fn resp_limits(settings: &Settings) -> RespLimits {
    RespLimits {
        command_max: settings.limits.header_timeout,
        key_max: settings.limits.key_max,
        wait_max: settings.limits.wait_max,
        ..RespLimits::default()
    }
}

/// How often the status of gRPC health is determined.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// Keeps the status of gRPC health up to date until shutdown.
async fn report_health(health: Health, engine: Arc<Engine>, envoy: EnvoySettings, stop: Stop) {
    let mut reported = true;
    loop {
        let is_healthy = engine.plan().is_healthy(&envoy);
        if is_healthy != reported {
            health.set(is_healthy).await;
            reported = is_healthy;
        }
        tokio::select! {
            () = tokio::time::sleep(HEALTH_EVERY) => {}
            () = stop.clone().wait() => return health.set(false).await,
        }
    }
}

/// A protocol other than HTTP, over any stream.
#[derive(Clone)]
enum Protocol {
    Grpc(grpc::Service, GrpcLimits),
    Resp(Arc<Engine>, Access, RespLimits),
}

impl Protocol {
    /// Serves one connection until the client closes it or, between requests, until `ended`.
    async fn serve<S>(
        self,
        stream: S,
        activity: Arc<Activity>,
        ended: impl Future<Output = ()> + Send,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self {
            Self::Grpc(service, limits) => {
                grpc::serve(stream, service, limits, activity, ended).await
            }
            Self::Resp(engine, access, limits) => {
                resp::serve(stream, engine, access, limits, activity, ended).await
            }
        }
    }
}

/// The time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts connections until shutdown, then waits for the open ones.
async fn serve_protocol(
    listener: Listener,
    protocol: Protocol,
    connections: Arc<Connections>,
    stop: Stop,
) {
    let mut open = JoinSet::new();
    let serve = |stream, _, slot: ConnectionSlot| {
        let (protocol, ended) = (protocol.clone(), stop.clone().wait());
        let tls = listener.tls.as_ref().map(ReloadableTls::acceptor);
        let connections = Arc::clone(&connections);
        let activity = Arc::clone(slot.activity());
        async move {
            let serving = pin!(async {
                match tls {
                    None => protocol.serve(stream, activity, ended).await,
                    Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => protocol.serve(stream, activity, ended).await,
                        // A client that does not speak TLS gets no reply.
                        Ok(Err(_)) => Ok(()),
                        Err(slow) => Err(slow.into()),
                    },
                }
            });
            let served = connections.catch_panic(serving).await;
            // Other errors mean that the client broke the connection.
            let is_slow = |error: io::Error| error.kind() == io::ErrorKind::TimedOut;
            if served.is_some_and(|served| served.is_err_and(is_slow)) {
                connections.cut.add(1);
            }
            drop(slot);
        }
    };
    accept_all(&listener.socket, &connections, &stop, &[], &mut open, serve).await;
    drop(listener);
    while open.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests;
