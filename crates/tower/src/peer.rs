//! The address at the other end of the connection.

use core::net::{IpAddr, SocketAddr};

use http::Extensions;

/// The address at the other end of the connection, as an extension of a request.
///
/// axum and tonic note it in forms of their own, which are read with the features of these names.
/// Whoever serves by hyper alone inserts this for every request of a connection.
///
/// ```
/// use std::net::SocketAddr;
/// use slidegate_tower::{Head, PeerAddr};
///
/// let peer: SocketAddr = "192.0.2.7:4711".parse().unwrap();
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(PeerAddr(peer));
/// assert_eq!(Head::of(&request).peer(), Some(peer.ip()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// Ours first: who inserts it, behind a load balancer that speaks the PROXY protocol for example,
/// knows better than the socket.
#[inline]
pub(crate) fn find(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(PeerAddr(address)) = extensions.get() {
        return Some(address.ip());
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|address| address.ip());
    }
    None
}

/// What to do when nobody has noted it; the text of a 500.
pub(crate) const UNKNOWN: &str = "the peer's address is not known, so nobody can be told apart: \
    with axum serve `into_make_service_with_connect_info::<SocketAddr>()`, \
    with hyper insert `slidegate_tower::PeerAddr` into each request";
