//! The etcd lease under which a server stores its clock reading.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on};
use etcd_client::GetOptions;
use statestored_link::ThreadLink;
use statestored_shared::{CLOCK_LIFETIME, EngineEvent, EngineRequest, EngineRequestId, Link};
use std::future::poll_fn;
use std::time::{Duration, Instant};

/// etcd looks every half a second which leases have ended, and may be slow.
const EXPIRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the clock readings that are stored in etcd.
async fn shown(etcd: &Etcd) -> Vec<String> {
    let all = GetOptions::new().with_prefix();
    let found = etcd.client().await.get("test/n/", Some(all)).await.unwrap();
    let shown = found
        .kvs()
        .iter()
        .map(|it| it.value_str().unwrap().to_owned());
    shown.collect()
}

async fn publish_clock(link: &mut ThreadLink, number: u64) {
    let ask = EngineRequest::Clocks {
        process: 7,
        reading_ms: number,
    };
    link.request(EngineRequestId(number), ask);
    link.flush();
    loop {
        poll_fn(|context| link.poll_events(context)).await;
        while let Some(news) = link.next_event() {
            if matches!(news, EngineEvent::Clocks(ask, Ok(_)) if ask == EngineRequestId(number)) {
                return;
            }
        }
    }
}

#[test]
fn the_clock_lease_of_a_silent_server_expires() {
    let etcd = Etcd::start();
    let mut link = etcd.link("test");
    block_on(async {
        let mut told = Instant::now();
        for number in 1..=4 {
            told = Instant::now();
            publish_clock(&mut link, number).await;
            // The clock reading is stored after the response.
            while shown(&etcd).await != [number.to_string()] {
                assert!(told.elapsed() < EXPIRY_TIMEOUT, "it is not told");
            }
            let leases = etcd.client().await.leases().await.unwrap();
            assert_eq!(leases.leases().len(), 1);
        }
        // A lease that etcd no longer has is replaced.
        let leases = etcd.client().await.leases().await.unwrap();
        let lost = leases.leases()[0].id();
        etcd.client().await.lease_revoke(lost).await.unwrap();
        assert_eq!(shown(&etcd).await, [""; 0]);
        for number in 5..=6 {
            told = Instant::now();
            publish_clock(&mut link, number).await;
            while shown(&etcd).await != [number.to_string()] {
                assert!(told.elapsed() < EXPIRY_TIMEOUT, "it is not told");
            }
        }
        let lease = etcd.client().await.leases().await.unwrap().leases()[0].id();
        assert_ne!(lease, lost);
        drop(link);
        while !shown(&etcd).await.is_empty() {
            assert!(
                told.elapsed() < CLOCK_LIFETIME + EXPIRY_TIMEOUT,
                "it is not forgotten"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(told.elapsed() >= CLOCK_LIFETIME, "{:?}", told.elapsed());
    });
}
