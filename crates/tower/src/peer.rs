//! The address at the other end of the connection.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::Extensions;

/// The address of the peer, as a request extension.
///
/// axum and tonic insert their own types, which are read with the features of these names. A
/// server that uses hyper directly inserts this one into every request of a connection.
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
///
/// With the feature `axum` it is also the connect info of TCP and unix sockets:
/// `app.into_make_service_with_connect_info::<PeerAddr>()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

impl PeerAddr {
    /// The peer of a unix socket. It has no address and counts as `127.0.0.1`.
    ///
    /// All clients of the socket therefore share one key. Behind a proxy, trust `127.0.0.1` in the
    /// [`ClientAddress`](slidegate_http::ClientAddress), so that the field of the proxy
    /// distinguishes them.
    pub const UNIX: Self = Self(SocketAddr::new(UNIX, 0));
}

const UNIX: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Finds the peer's address. `PeerAddr` takes precedence: a program that inserts it, for example
/// behind a load balancer with the PROXY protocol, has a better address than the socket.
#[inline]
pub(crate) fn find(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(PeerAddr(address)) = extensions.get() {
        return Some(address.ip());
    }
    #[cfg(feature = "axum")]
    if let Some(address) = axum_peer::find(extensions) {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|address| address.ip());
    }
    #[cfg(all(feature = "tonic", unix))]
    if extensions.get::<tonic::transport::server::UdsConnectInfo>().is_some() {
        return Some(UNIX);
    }
    None
}

#[cfg(feature = "axum")]
mod axum_peer {
    use core::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::{Connected, MockConnectInfo};
    use axum::serve::IncomingStream;
    use http::Extensions;

    use super::PeerAddr;

    #[inline]
    pub(super) fn find(extensions: &Extensions) -> Option<SocketAddr> {
        if let Some(ConnectInfo(address)) = extensions.get::<ConnectInfo<SocketAddr>>() {
            return Some(*address);
        }
        find_other(extensions)
    }

    /// Like axum's own extractor, uses a mock if there is nothing else.
    fn find_other(extensions: &Extensions) -> Option<SocketAddr> {
        if let Some(ConnectInfo(PeerAddr(address))) = extensions.get() {
            return Some(*address);
        }
        if let Some(MockConnectInfo(address)) = extensions.get::<MockConnectInfo<SocketAddr>>() {
            return Some(*address);
        }
        extensions.get().map(|MockConnectInfo(PeerAddr(address))| *address)
    }

    impl Connected<IncomingStream<'_, tokio::net::TcpListener>> for PeerAddr {
        fn connect_info(stream: IncomingStream<'_, tokio::net::TcpListener>) -> Self {
            Self(*stream.remote_addr())
        }
    }

    #[cfg(unix)]
    impl Connected<IncomingStream<'_, tokio::net::UnixListener>> for PeerAddr {
        fn connect_info(_: IncomingStream<'_, tokio::net::UnixListener>) -> Self {
            Self::UNIX
        }
    }
}

/// The body of the 500 if no extension has the address.
pub(crate) const UNKNOWN: &str = "the peer's address is not known, so clients cannot be \
    distinguished: with axum serve `into_make_service_with_connect_info::<PeerAddr>()` \
    (`slidegate_tower::PeerAddr` works for TCP and unix sockets), with hyper insert `PeerAddr` into \
    each request";
