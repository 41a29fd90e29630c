//! Work under a lock: which of its ends counts, and that the lock is given back only after it.
use crate::lease::{SECOND, lease_options, try_take};
use crate::machine::Machine;
use crate::network_simulation::NetworkSimulation;
use statestore::{Client, Error, ErrorKind, LockOptions, LostReason, Outcome};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(600);

/// An error of the work under the lock.
#[derive(Debug)]
enum Failure {
    Work,
    Lock(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

fn options() -> LockOptions {
    LockOptions::new().lease(lease_options(SECOND))
}

fn assert_lost(result: Result<(), Failure>) {
    let Err(Failure::Lock(error)) = result else {
        panic!("the lock was lost, and nobody said so: {result:?}")
    };
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::LockLost, Outcome::Unknown)
    );
}

async fn one(world: &NetworkSimulation) -> Client {
    Machine::new(world, "one", 1).connect().await
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_work_takes_precedence_over_a_lost_lock() {
    let world = NetworkSimulation::start();
    let (one, options) = (one(&world).await, options());
    for loses in [false, true] {
        let work = one.with_lock("lock", &options, async |guard| {
            world.set_silent("one", loses);
            if loses {
                guard.lost().await;
            }
            Err::<(), _>(Failure::Work)
        });
        let result = timeout(LONG, work).await.expect("it is ended");
        assert!(matches!(result, Err(Failure::Work)), "{result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_at_the_end_of_the_work_is_an_error() {
    let world = NetworkSimulation::start();
    let (one, options) = (one(&world).await, options());
    let work = one.with_lock("lock", &options, async |guard| {
        world.set_silent("one", true);
        assert_eq!(guard.lost().await, LostReason::Expired);
        Ok::<_, Failure>(())
    });
    assert_lost(timeout(LONG, work).await.expect("it is ended"));
}

#[tokio::test(start_paused = true)]
async fn a_lock_found_lost_at_the_end_of_the_work_is_an_error() {
    let world = NetworkSimulation::start();
    let (one, options) = (one(&world).await, options());
    let two = Machine::new(&world, "two", 2).connect().await;
    let result = one
        .with_lock("lock", &options, async |guard| {
            two.del("lock").await?;
            assert!(guard.is_valid(), "nobody told it");
            Ok::<_, Failure>(())
        })
        .await;
    assert_lost(result);
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_is_not_an_error_of_the_work() {
    let world = NetworkSimulation::start();
    let (one, options) = (one(&world).await, options());
    let work = one.with_lock("lock", &options, async |_| {
        world.set_silent("one", true);
        Ok::<_, Failure>(7)
    });
    let result = timeout(LONG, work).await.expect("it is ended");
    assert_eq!(result.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_released_when_the_work_ends() {
    let world = NetworkSimulation::start();
    let (one, options) = (one(&world).await, options());
    let two = Machine::new(&world, "two", 2).connect().await;
    let held = one.with_lock("lock", &options, async |guard| {
        sleep(5 * SECOND).await;
        let held = try_take(&two, &lease_options(SECOND)).await.is_none();
        assert_eq!(guard.lost_reason(), None);
        Ok::<_, Failure>(held)
    });
    assert!(held.await.unwrap());
    assert_eq!(world.value("lock"), None);
    assert!(try_take(&two, &lease_options(SECOND)).await.is_some());
}
