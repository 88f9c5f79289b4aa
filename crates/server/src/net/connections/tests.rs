//! Tests of `connections`.

use core::future::pending;

use tokio::task::JoinSet;

use super::*;
use crate::net::timeouts::ActiveRequest;

const LOOPBACK: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A connection with a task, which ends when it is evicted.
struct Open {
    slot: Option<ConnectionSlot>,
    activity: Arc<Activity>,
}

fn open(connections: &Arc<Connections>, tasks: &mut JoinSet<()>) -> Open {
    let slot = connections.enter(LOOPBACK).unwrap();
    connections.spawned(slot.id(), tasks.spawn(pending()));
    let activity = Arc::clone(slot.activity());
    Open { slot: Some(slot), activity }
}

impl Open {
    fn request(&self) {
        drop(ActiveRequest::begin(&*self.activity));
    }

    /// Whether this one is the next that is evicted. Its slot is freed, as its task would.
    fn is_evicted(&mut self, connections: &Connections) -> bool {
        let evicted = connections.evict();
        let table = connections.table.lock();
        let id = self.slot.as_ref().unwrap().id();
        let entry = table.strangers.get(&id).or_else(|| table.known.get(&id));
        let is_this = entry.unwrap().task.is_none();
        drop(table);
        self.slot = self.slot.take().filter(|_| !is_this);
        evicted && is_this
    }
}

#[test]
fn a_closed_connection_frees_its_slot() {
    let connections = Connections::new("test", 2);
    let first = connections.enter(LOOPBACK).unwrap();
    let _second = connections.enter(LOOPBACK).unwrap();
    assert_eq!(connections.enter(LOOPBACK).unwrap_err(), NoSlot::Full);
    drop(first);
    assert!(connections.enter(LOOPBACK).is_ok());
    assert_eq!((connections.accepted.get(), connections.open()), (3, 1));
}

#[tokio::test]
async fn strangers_are_evicted_first_and_the_longest_idle_of_them() {
    let (connections, mut tasks) = (Connections::new("test", 9), JoinSet::new());
    let [mut known, mut first, mut second, mut busy] =
        core::array::from_fn(|_| open(&connections, &mut tasks));
    known.request();
    let request = ActiveRequest::begin(&*busy.activity);
    assert!(first.is_evicted(&connections));
    assert!(second.is_evicted(&connections));
    assert!(known.is_evicted(&connections));
    assert!(!connections.evict());
    drop(request);
    assert!(busy.is_evicted(&connections));
    assert_eq!((connections.open(), connections.evicted.get()), (0, 4));
}

#[tokio::test]
async fn a_known_client_that_was_active_since_the_last_search_stays() {
    let (connections, mut tasks) = (Connections::new("test", 9), JoinSet::new());
    let [mut idle, mut active, mut newer] =
        core::array::from_fn(|_| open(&connections, &mut tasks));
    for client in [&idle, &active, &newer] {
        client.request();
    }
    assert!(idle.is_evicted(&connections));
    active.request();
    assert!(newer.is_evicted(&connections));
    assert!(active.is_evicted(&connections));
}

// A client that never sends its body is waited for, not worked for.
#[tokio::test]
async fn a_client_with_an_incomplete_body_is_idle() {
    use crate::net::timeouts::ClientWait;
    let (connections, mut tasks) = (Connections::new("test", 9), JoinSet::new());
    let mut client = open(&connections, &mut tasks);
    let activity = Arc::clone(&client.activity);
    let _request = ActiveRequest::begin(&*activity);
    assert!(!connections.evict());
    let _incomplete = ClientWait::begin(&activity);
    assert!(client.is_evicted(&connections));
}

#[test]
fn an_address_has_a_maximum_unless_many_clients_share_it() {
    let address =
        ClientAddress::builder().trust("10.0.0.0/8").field(slidegate_http::HopField::XForwardedFor);
    let address = address.build().unwrap();
    let limit = AddressLimit { max: 2, address };
    let connections = Connections::with_address_limit("test", 100, Some(limit));
    let enter = |text: &str| connections.enter(ip(text));
    let held = [enter("192.0.2.1").unwrap(), enter("::ffff:192.0.2.1").unwrap()];
    assert_eq!(enter("192.0.2.1").unwrap_err(), NoSlot::FullForAddress);
    let _other = enter("192.0.2.2").unwrap();
    // A client has a whole network of IPv6.
    let _six = [enter("2001:db8::1").unwrap(), enter("2001:db8::2").unwrap()];
    assert_eq!(enter("2001:db8::3").unwrap_err(), NoSlot::FullForAddress);
    let shared =
        ["127.0.0.1", "::1", "10.1.2.3"].map(|text| [(); 5].map(|()| enter(text).unwrap()));
    drop(held);
    assert!(enter("192.0.2.1").is_ok());
    drop(shared);
}
