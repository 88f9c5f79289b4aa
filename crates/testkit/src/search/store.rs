//! Stores as systems.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use slidegate::{
    Cost, Error, Limiter, LimiterBuilder, ManualClock, Policy, Quota, Quotas, Store, Target, Tier,
};

use super::{AnyReceipt, At, Operation, Reply, System, TICK, World};

/// Runs an operation on any store. `name` returns the key of a number.
///
/// # Errors
///
/// Returns an error if the store fails.
pub async fn run_on(
    store: &dyn Store,
    tiers: &[Tier],
    name: impl Fn(usize) -> String,
    operation: &Operation,
    receipt: Option<AnyReceipt>,
) -> Result<(Reply, Option<AnyReceipt>), Error> {
    use Operation as Op;
    let Some(At { key, tier }) = operation.at() else { return Ok((Reply::Done, None)) };
    let key = receipt.map_or(key, |receipt| receipt.key);
    let own = name(key);
    let quotas = tier.checked_sub(1).map_or(Quotas::Policy, |tier| Quotas::Tier(&tiers[tier]));
    let target = Target { key: own.as_bytes(), quotas };
    let cost = |units| Cost::new(units).unwrap_or(Cost::ONE);
    let receipt = receipt.map(|AnyReceipt { units, tick, life, .. }| {
        store.receipt(own.as_bytes(), units, tick, u16::try_from(life).unwrap_or(0))
    });
    let reply = match (*operation, receipt) {
        (Op::Check(_, units), _) => {
            return Ok(decided(key, store.check(target, cost(units)).await?));
        }
        (Op::AtMost(_, units), _) => {
            return Ok(decided(key, store.check_at_most(target, cost(units)).await?));
        }
        (Op::Peek(_, units), _) => return Ok(decided(key, store.peek(target, cost(units)).await?)),
        (Op::Charge(_, units), _) => Reply::Units(store.charge(target, units).await?),
        (Op::Refund(..), Some(receipt)) => Reply::Units(store.refund(target, receipt).await?),
        (Op::Settle(.., actual), Some(receipt)) => {
            Reply::Units(store.settle(target, receipt, actual).await?)
        }
        (Op::Refund(..) | Op::Settle(..), None) => Reply::Units(0),
        (Op::Forgive(_, units), _) => Reply::Units(store.forgive(target, units).await?),
        (Op::Block(_, ticks), _) => {
            let time = TICK * u32::try_from(ticks).unwrap_or(u32::MAX);
            store.block(own.as_bytes(), time).await?;
            Reply::Done
        }
        (Op::Unblock(_), _) => Reply::Found(store.unblock(own.as_bytes()).await?),
        (Op::Reset(_), _) => Reply::Found(store.reset(own.as_bytes()).await?),
        (Op::Usage(_), _) => Reply::Usage(store.usage(target).await?.as_slice().to_vec()),
        (Op::Clock(_) | Op::Restart, _) => Reply::Done,
    };
    Ok((reply, None))
}

fn decided(key: usize, decision: slidegate::Decision) -> (Reply, Option<AnyReceipt>) {
    let in_ticks = |time: Duration| {
        u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX)
    };
    let quotas = decision.quotas().iter().map(|quota| {
        let retry = quota.retry_after().duration().map(in_ticks);
        (quota.remaining(), retry, in_ticks(quota.reset_after()))
    });
    let (is_allowed, quotas) = (decision.is_allowed(), quotas.collect());
    let taken = decision.into_receipt().map(|taken| AnyReceipt {
        key,
        units: taken.units(),
        tick: taken.tick(),
        life: taken.epoch().into(),
    });
    let units = taken.map_or(0, |taken| taken.units);
    (Reply::Decision { is_allowed, units, quotas }, taken)
}

/// The limiter in memory as a system.
#[derive(Debug)]
pub struct InMemory {
    limiter: Limiter,
    clock: ManualClock,
    policy: Policy,
    tiers: Vec<Tier>,
    quotas: Vec<Vec<Quota>>,
}

impl InMemory {
    /// Creates a limiter for a world.
    ///
    /// # Errors
    ///
    /// Returns an error if the world is not valid.
    pub fn new(world: &World) -> Result<Self, Error> {
        let (policy, quotas) = world.policy()?;
        let clock = ManualClock::new(Duration::ZERO);
        let limiter = Self::builder(&policy, &clock).build()?;
        let mut system = Self { limiter, clock, policy, tiers: Vec::new(), quotas };
        system.create_tiers()?;
        Ok(system)
    }

    fn builder(policy: &Policy, clock: &ManualClock) -> LimiterBuilder {
        Limiter::builder(policy.clone()).clock(clock.clone()).tick(TICK).shards(1).secret([7; 16])
    }

    fn create_tiers(&mut self) -> Result<(), Error> {
        let tiers = self.quotas.iter().map(|quotas| self.limiter.tier(quotas));
        self.tiers = tiers.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Error> {
        let mut snapshot = Vec::new();
        self.limiter.save(&mut snapshot)?;
        let builder = Self::builder(&self.policy, &self.clock);
        (self.limiter, _) = builder.restore(&mut snapshot.as_slice())?;
        self.create_tiers()
    }
}

impl System for InMemory {
    fn set_time(&mut self, now: Duration) {
        self.clock.set(now);
    }

    fn run(
        &mut self,
        operation: &Operation,
        receipt: Option<AnyReceipt>,
    ) -> (Reply, Option<AnyReceipt>) {
        if *operation == Operation::Restart {
            return (self.restart().map_or_else(Reply::from, |()| Reply::Done), None);
        }
        let name = |key: usize| key.to_string();
        let running = run_on(&self.limiter, &self.tiers, name, operation, receipt);
        match pin!(running).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done.unwrap_or_else(|error| (error.into(), None)),
            Poll::Pending => (Reply::Failed("the limiter in memory waits".to_owned()), None),
        }
    }

    fn state(&mut self) -> Vec<u8> {
        let mut snapshot = Vec::new();
        // Writing to memory does not fail.
        let _ = self.limiter.save(&mut snapshot);
        snapshot
    }
}
