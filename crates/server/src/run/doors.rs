//! Every listener of the daemon.

use core::time::Duration;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use slidegate_tower::OverloadGuard;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::listener::{Stop, accept, listen};
use super::tls::{GRPC, HTTP, PLAIN, Tls};
use super::{Reloader, words};
use crate::admin::{Access, AdminState, Source, StoreMemory, may_listen};
use crate::config::{Loaded, OverloadSettings, Settings};
use crate::domain;
use crate::engine::Engine;
use crate::grpc::{self, GrpcLimits};
use crate::http::{Connections, Guarded, HttpSettings, HttpState, ServeLimits, Server};
use crate::overload;
use crate::resp::{self, RespLimits};

/// An address that is listened on, plainly or by TLS.
struct Door {
    listener: TcpListener,
    tls: Option<Tls>,
}

/// Every listener that is on, bound before anything is served: a taken address is found out at once.
pub(super) struct Doors {
    http: Option<Door>,
    grpc: Option<Door>,
    resp: Option<Door>,
    admin: Option<(Door, Access)>,
}

/// What is served.
pub(super) struct Served<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) settings: &'a Settings,
    pub(super) reloader: &'a Arc<Reloader>,
    pub(super) is_ending: &'a Arc<AtomicBool>,
    pub(super) sources: Vec<Source>,
    pub(super) stop: Stop,
}

/// How often stores are asked for their memory.
const STORES_EVERY: Duration = Duration::from_secs(15);

/// Connections that the admin listener takes, so that metrics are there when clients use up theirs.
const ADMIN_CONNECTIONS: usize = 64;

impl Door {
    async fn open(
        name: &str,
        address: Option<SocketAddr>,
        tls: Option<&crate::config::TlsSettings>,
        protocols: &'static [&'static [u8]],
    ) -> Result<Option<Self>, String> {
        let Some(address) = address else { return Ok(None) };
        let tls = tls.map(|tls| Tls::new(tls, protocols)).transpose()?;
        Ok(Some(Self { listener: listen(name, address).await?, tls }))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

impl Doors {
    pub(super) async fn open(settings: &Settings) -> Result<Self, String> {
        let (at, tls) = (&settings.listen, settings.tls.as_ref());
        let admin_tls = settings.admin.tls.as_ref();
        let admin = match Door::open("admin", at.admin, admin_tls, HTTP).await? {
            Some(door) => Some((door, admin_access(settings)?)),
            None => None,
        };
        Ok(Self {
            http: Door::open("http", at.http, tls, HTTP).await?,
            grpc: Door::open("grpc", at.grpc, tls, GRPC).await?,
            resp: Door::open("resp", at.resp, tls, PLAIN).await?,
            admin,
        })
    }

    pub(super) fn certificates(&self) -> Vec<Tls> {
        let admin = self.admin.as_ref().map(|(door, _)| door);
        let doors = [self.http.as_ref(), self.grpc.as_ref(), self.resp.as_ref(), admin];
        doors.into_iter().flatten().filter_map(|door| door.tls.clone()).collect()
    }

    /// Says where it listens, and what to try.
    pub(super) fn announce(&self, loaded: &Loaded) {
        let address = |door: Option<&Door>| door.and_then(Door::address);
        let places = words::Places {
            http: address(self.http.as_ref()),
            grpc: address(self.grpc.as_ref()),
            resp: address(self.resp.as_ref()),
            admin: address(self.admin.as_ref().map(|(door, _)| door)),
            is_tls: loaded.settings.tls.is_some(),
        };
        let _ = io::stderr().lock().write_all(words::welcome(&places, loaded).as_bytes());
    }

    /// Serves them all. The guard against overload is one, in front of HTTP and gRPC: they share what
    /// the machine can do.
    ///
    /// # Errors
    ///
    /// When its settings are out of range.
    pub(super) fn serve(
        self,
        tasks: &mut JoinSet<()>,
        mut served: Served<'_>,
    ) -> Result<(), String> {
        let mut sources = core::mem::take(&mut served.sources);
        let Served { engine, settings, stop, .. } = &served;
        let connections = Connections::new(settings.limits.connections);
        let options = Arc::new(domain::Options::from(*settings));
        let guard = guard(&settings.overload)?;
        if let Some(guard) = guard.clone() {
            sources.push(Box::new(move |page| overload::tell(&guard, page)));
        }
        if let Some(door) = self.http {
            let state = HttpState::new(Arc::clone(engine), http_settings(&served, &options));
            let guarded = Guarded::new(state, guard.clone());
            let server = server(door, guarded, settings, &connections);
            let stop = stop.clone();
            tasks.spawn(server.serve(stop.wait()));
        }
        if let Some(door) = self.grpc {
            let service = grpc::Service::new(Arc::clone(engine), Arc::clone(&options))
                .message_max(settings.limits.body_max)
                .guard(guard);
            let (health, ended) = (service.health(), stop.clone());
            tasks.spawn(async move {
                ended.wait().await;
                health.set(false).await;
            });
            let grpc = Grpc(service, grpc_limits(settings));
            tasks.spawn(serve_each(door, grpc, Arc::clone(&connections), stop.clone()));
        }
        if let Some(door) = self.resp {
            let resp = Resp(Arc::clone(engine), RespLimits::default());
            tasks.spawn(serve_each(door, resp, Arc::clone(&connections), stop.clone()));
        }
        if let Some((door, access)) = self.admin {
            let listeners = vec![("data", Arc::clone(&connections))];
            let state = AdminState { sources, ..admin_state(access, &served, listeners) };
            let (watched, stores) = (Arc::downgrade(engine), Arc::clone(&state.stores));
            let ended = stop.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = stores.watch(watched, STORES_EVERY) => {}
                    () = ended.wait() => {}
                }
            });
            let server = server(door, state, settings, &Connections::new(ADMIN_CONNECTIONS));
            let stop = stop.clone();
            tasks.spawn(server.serve(stop.wait()));
        }
        Ok(())
    }
}

fn admin_access(settings: &Settings) -> Result<Access, String> {
    let token_file = settings.admin.token_file.as_ref();
    let has_mtls = settings.admin.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    if let Some(address) = settings.listen.admin {
        may_listen(address, token_file.is_some(), has_mtls).map_err(|error| error.to_string())?;
    }
    let Some(path) = token_file else { return Ok(Access::local()) };
    let named = |error: &dyn core::fmt::Display| format!("admin token {}: {error}", path.display());
    let token = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    Access::token(&token).map_err(|error| named(&error))
}

fn admin_state(
    access: Access,
    served: &Served<'_>,
    listeners: Vec<(&'static str, Arc<Connections>)>,
) -> AdminState {
    let (reloader, engine) = (Arc::clone(served.reloader), Arc::clone(served.engine));
    AdminState {
        pages: vec![("/rlconfig", Box::new(move || domain::dump(&engine.plan())))],
        listeners,
        reloads: Arc::clone(served.reloader.reloads()),
        reload: Some(Arc::new(move || reloader.reload())),
        stores: Arc::<StoreMemory>::default(),
        is_ending: Arc::clone(served.is_ending),
        ..AdminState::new(Arc::clone(served.engine), access)
    }
}

fn guard(settings: &OverloadSettings) -> Result<Option<OverloadGuard>, String> {
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

fn http_settings(served: &Served<'_>, envoy: &Arc<domain::Options>) -> HttpSettings {
    let (settings, limits) = (served.settings, &served.settings.limits);
    HttpSettings {
        envoy: Arc::clone(envoy),
        is_ending: Arc::clone(served.is_ending),
        body_max: limits.body_max,
        key_max: limits.key_max,
        batch_max: limits.batch_max,
        client: settings.address.clone(),
        ..HttpSettings::default()
    }
}

fn server<H>(
    door: Door,
    handler: H,
    settings: &Settings,
    connections: &Arc<Connections>,
) -> Server<H> {
    let limits = ServeLimits {
        header_timeout: settings.limits.header_timeout,
        streams_max: settings.limits.streams_max,
        ..ServeLimits::default()
    };
    Server {
        listener: door.listener,
        handler: Arc::new(handler),
        limits,
        connections: Arc::clone(connections),
        tls: door.tls.map(|tls| tls.shared()),
    }
}

fn grpc_limits(settings: &Settings) -> GrpcLimits {
    GrpcLimits {
        opening_max: settings.limits.header_timeout,
        streams_max: settings.limits.streams_max,
        ..GrpcLimits::default()
    }
}

/// What a connection speaks, plainly or by TLS.
trait Speak: Clone + Send + 'static {
    /// Serves one connection to its end; between requests, `ended` is it too.
    fn speak<S>(
        self,
        stream: S,
        ended: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static;
}

#[derive(Clone)]
struct Grpc(grpc::Service, GrpcLimits);

#[derive(Clone)]
struct Resp(Arc<Engine>, RespLimits);

// How a connection ends is its client's affair.
impl Speak for Grpc {
    async fn speak<S>(self, stream: S, ended: impl Future<Output = ()> + Send)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _ = grpc::serve(stream, self.0, self.1, ended).await;
    }
}

impl Speak for Resp {
    async fn speak<S>(self, stream: S, ended: impl Future<Output = ()> + Send)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _ = resp::serve(stream, self.0, self.1, ended).await;
    }
}

/// For a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Accepts until it is time to end, then waits for the connections there are.
async fn serve_each<P: Speak>(door: Door, speak: P, connections: Arc<Connections>, stop: Stop) {
    let mut open = JoinSet::new();
    while let Some((stream, _, entry)) = accept(&door.listener, &connections, &stop).await {
        while open.try_join_next().is_some() {}
        let (speak, ended) = (speak.clone(), stop.clone().wait());
        let tls = door.tls.as_ref().map(Tls::acceptor);
        open.spawn(async move {
            match tls {
                None => speak.speak(stream, ended).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                        speak.speak(stream, ended).await;
                    }
                }
            }
            drop(entry);
        });
    }
    drop(door);
    while open.join_next().await.is_some() {}
}
