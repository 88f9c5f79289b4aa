//! Envoy's protocol over real sockets: a tonic client, and Envoy itself.

mod access;
mod bypass;
mod files;
mod grpc;
mod incomplete;
mod outage;
mod overload;
mod proxy;
mod served;
mod traces;
