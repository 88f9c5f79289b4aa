//! Waiting for units in order of arrival, with a deadline: blocking and `async`.
//!
//! `cargo run -p slidegate --example waiting`

#![expect(clippy::print_stdout, reason = "the example shows what it decides")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use slidegate::{Clock, Cost, Error, Limiter, MonotonicClock, Policy, Quota};

const DEADLINE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Error> {
    let clock = MonotonicClock::new();
    let start = clock.now();
    let elapsed = || Duration::from_nanos(clock.now() - start).as_millis();
    let quota = Quota::new(2, Duration::from_millis(200))?;
    let limiter = Limiter::new(Policy::new("calls", quota)?)?;

    println!("Two calls in any 200 ms. Six, one after the other, blocking:");
    for call in 1..=6 {
        let decision = limiter.wait_timeout_blocking("blocking", Cost::ONE, DEADLINE)?;
        println!("  {:>4} ms  call {call} allowed: {}", elapsed(), decision.is_allowed());
    }

    println!("If the wait would exceed the deadline, the call is denied immediately:");
    let decision =
        limiter.wait_timeout_blocking("blocking", Cost::ONE, Duration::from_millis(5))?;
    println!("  {:>4} ms  allowed: {}", elapsed(), decision.is_allowed());

    println!("The same with `async`, on a minimal executor:");
    block_on(async {
        for call in 1..=6 {
            // With a runtime: `limiter.wait_timeout("async", Cost::ONE, DEADLINE,
            // tokio::time::sleep)`.
            let decision = limiter.wait_timeout("async", Cost::ONE, DEADLINE, Sleep::new).await?;
            println!("  {:>4} ms  call {call} allowed: {}", elapsed(), decision.is_allowed());
        }
        Ok::<(), Error>(())
    })?;

    println!("Dropping the future leaves the queue:");
    let abandoned = limiter.wait_timeout("async", Cost::ONE, DEADLINE, Sleep::new);
    poll_once_and_drop(abandoned);
    println!(
        "  {} units used, {} waiters",
        limiter.usage("async").units(0),
        limiter.stats().waiters
    );
    Ok(())
}

/// A future that is ready after a time, woken by a separate thread.
struct Sleep {
    time: Duration,
    over: Option<Arc<AtomicBool>>,
}

impl Sleep {
    fn new(time: Duration) -> Self {
        Self { time, over: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &self.over {
            Some(over) if over.load(Ordering::Acquire) => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                let over = Arc::new(AtomicBool::new(false));
                let (timer, waker, time) = (Arc::clone(&over), context.waker().clone(), self.time);
                thread::spawn(move || {
                    #[expect(clippy::disallowed_methods, reason = "a timer has to sleep")]
                    thread::sleep(time);
                    timer.store(true, Ordering::Release);
                    waker.wake();
                });
                self.over = Some(over);
                Poll::Pending
            }
        }
    }
}

/// Runs a future to completion on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn poll_once_and_drop(future: impl Future) {
    let _ = pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop()));
}
