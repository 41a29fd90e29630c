//! The etcd lease under which a server stores its clock reading.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, block_on};
use etcd_client::GetOptions;
use statestored::keyspace::remote::{Ask, AskId, CLOCK_LIFETIME, Link, News, ThreadLink};
use std::future::poll_fn;
use std::time::{Duration, Instant};

/// etcd looks every half a second which leases have ended, and may be slow.
const LATE: Duration = Duration::from_secs(30);

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

async fn tell(link: &mut ThreadLink, number: u64) {
    let ask = Ask::Clocks {
        process: 7,
        shown_ms: number,
    };
    link.ask(AskId(number), ask);
    link.send();
    loop {
        poll_fn(|context| link.poll_news(context)).await;
        while let Some(news) = link.news() {
            if matches!(news, News::Clocks(ask, Ok(_)) if ask == AskId(number)) {
                return;
            }
        }
    }
}

#[test]
fn a_server_has_one_lease_for_its_clock_which_ends_when_it_tells_nothing_more() {
    let etcd = Etcd::start();
    let mut link = etcd.link("test");
    block_on(async {
        let mut told = Instant::now();
        for number in 1..=4 {
            told = Instant::now();
            tell(&mut link, number).await;
            // The clock reading is stored after the response.
            while shown(&etcd).await != [number.to_string()] {
                assert!(told.elapsed() < LATE, "it is not told");
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
            tell(&mut link, number).await;
            while shown(&etcd).await != [number.to_string()] {
                assert!(told.elapsed() < LATE, "it is not told");
            }
        }
        let lease = etcd.client().await.leases().await.unwrap().leases()[0].id();
        assert_ne!(lease, lost);
        drop(link);
        while !shown(&etcd).await.is_empty() {
            assert!(
                told.elapsed() < CLOCK_LIFETIME + LATE,
                "it is not forgotten"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(told.elapsed() >= CLOCK_LIFETIME, "{:?}", told.elapsed());
    });
}
