//! Accepts clients, and starts the tasks that serve them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::AcceptMode;
use super::control::Control;
use super::pipe::{Direction, Pipe};

/// The maximum number of open connections, more than a test needs.
const LINES_MAX: usize = 256;

/// The pause after a failed accept: the client has left, or there are too many open files.
const REST: Duration = Duration::from_millis(5);

/// Accepts clients until the proxy is dropped.
pub(super) async fn accept(control: Arc<Control>, listener: TcpListener, server: SocketAddr) {
    while wait_until_accepting(&control).await {
        let (client, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(REST).await;
                    continue;
                }
            },
            () = control.wait_for(|state| state.accept_mode == AcceptMode::Shut || state.is_over) => continue,
        };
        // A client that arrived while accepting was being stopped waits too.
        if !wait_until_accepting(&control).await {
            return;
        }
        admit(&control, client, address, server);
    }
}

/// Waits while no clients are accepted. Returns `false` if the proxy was dropped.
async fn wait_until_accepting(control: &Control) -> bool {
    control.change(|state| state.is_accepting_paused = state.accept_mode == AcceptMode::Shut);
    control.wait_for(|state| state.accept_mode != AcceptMode::Shut || state.is_over).await;
    control.change(|state| state.is_accepting_paused = false);
    !control.see(|state| state.is_over)
}

fn admit(control: &Arc<Control>, client: TcpStream, address: SocketAddr, server: SocketAddr) {
    control.change(|state| {
        if state.fillers.remove(&address).is_some() {
            return;
        }
        if state.lines.len() >= LINES_MAX {
            state.counters.refused += 1;
            return;
        }
        state.counters.connections += 1;
        let number = state.counters.connections;
        let control = Arc::clone(control);
        let served = tokio::spawn(async move {
            // The error is not reported: the client sees that its connection is closed.
            let _ = serve(&control, client, server).await;
            control.change(|state| drop(state.lines.remove(&number)));
        });
        state.lines.insert(number, served.abort_handle());
    });
}

async fn serve(control: &Control, mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    control.wait_for(|state| state.accept_mode != AcceptMode::BlackHole).await;
    let mut server = TcpStream::connect(server).await?;
    // Tests need to see small writes unchanged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        Pipe::new(control, Direction::Requests).run(from_client, to_server),
        Pipe::new(control, Direction::Replies).run(from_server, to_client),
    )?;
    Ok(())
}
