//! The service on a loopback port, with time in the test's hands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use slidegate::{Algorithm, ManualClock};
use slidegate_server::access::Access;
use slidegate_server::domain::Options;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::grpc::{self, GrpcLimits, Service};
use slidegate_server::net::BodyBudget;
use slidegate_server::spec::{DescriptorSpec, DomainSpec, LimitSpec, RateSpec, Spec, Unit};
use slidegate_tower::OverloadGuard;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: ManualClock,
    pub(crate) service: Service,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(spec: &Spec, options: Options) -> Self {
        Self::limited(spec, options, GrpcLimits::default()).await
    }

    pub(crate) async fn limited(spec: &Spec, options: Options, limits: GrpcLimits) -> Self {
        Self::with(spec, options, limits, |service| service).await
    }

    pub(crate) async fn guarded(spec: &Spec, guard: &OverloadGuard) -> Self {
        let (options, limits) = (Options::default(), GrpcLimits::default());
        Self::with(spec, options, limits, |service| service.guard(Some(guard.clone()))).await
    }

    pub(crate) async fn accessed(spec: &Spec, access: Access) -> Self {
        let (options, limits) = (Options::default(), GrpcLimits::default());
        Self::with(spec, options, limits, |service| service.access(access)).await
    }

    pub(crate) async fn bodies(spec: &Spec, budget: Arc<BodyBudget>) -> Self {
        let (options, limits) = (Options::default(), GrpcLimits::default());
        Self::with(spec, options, limits, |service| service.bodies(budget)).await
    }

    async fn with(
        spec: &Spec,
        options: Options,
        limits: GrpcLimits,
        adjust: impl FnOnce(Service) -> Service,
    ) -> Self {
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let engine = Engine::with_clock(spec, Some(clock.clone()), &mut NoRestore);
        let engine = Arc::new(engine.unwrap());
        let service = Service::new(Arc::clone(&engine), Arc::new(options)).await;
        let service = adjust(service);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(());
        let task = tokio::spawn(accept(listener, service.clone(), limits, stopped));
        Self { address, engine, clock, service, stop, task }
    }

    /// Ends the service and waits until it has ended.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

/// Serves connections until the other end of `stop` is dropped, and then until all have closed.
async fn accept(
    listener: TcpListener,
    service: Service,
    limits: GrpcLimits,
    mut stop: watch::Receiver<()>,
) {
    let mut open = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = stop.changed() => break,
        };
        let mut stop = stop.clone();
        let ended = async move {
            let _ = stop.changed().await;
        };
        open.spawn(grpc::serve(stream, service.clone(), limits, Arc::default(), ended));
    }
    drop(listener);
    open.join_all().await;
}

/// One domain with a limit of `requests` per `unit` for each user.
pub(crate) fn users(requests: u32, unit: Unit) -> Spec {
    let rate = RateSpec { requests, unit, algorithm: Algorithm::Log };
    let limit =
        LimitSpec { rate: Some(rate), name: Some("per-user".to_owned()), replaces: Vec::new() };
    let user = DescriptorSpec { key: "user".to_owned(), limit: Some(limit), ..Default::default() };
    Spec { domains: vec![DomainSpec::new("shop", vec![user])], ..Spec::default() }
}
