//! The tests that every storage passes, whatever keeps its records.
use super::model::{Model, SMALL_LOGS, batch, put, record};
use bytes::Bytes;
use proptest::prelude::*;
use statestore_protocol::Hlc;
use statestored_storage::{
    Batch, DurableOptions, DurableStorage, Expiry, MemoryStorage, Record, Storage, Write,
};
use tempfile::TempDir;

/// A kind of storage under test: each object is one store, opened again and again.
pub(crate) trait StorageUnderTest {
    fn new() -> Self;
    fn open(&self) -> Box<dyn Storage>;
    /// Whether an opened storage has what was committed before it was opened.
    const REMEMBERS: bool;
}

struct MemorySubject;

impl StorageUnderTest for MemorySubject {
    const REMEMBERS: bool = false;
    fn new() -> Self {
        Self
    }
    fn open(&self) -> Box<dyn Storage> {
        Box::new(MemoryStorage)
    }
}

struct DurableSubject(TempDir);

impl StorageUnderTest for DurableSubject {
    const REMEMBERS: bool = true;
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }
    fn open(&self) -> Box<dyn Storage> {
        Box::new(DurableStorage::open(self.0.path(), DurableOptions::default()).expect("open"))
    }
}

/// The same with logs so small that they are sealed and merged all the time.
struct DurableSmallLogs(DurableSubject);

impl StorageUnderTest for DurableSmallLogs {
    const REMEMBERS: bool = true;
    fn new() -> Self {
        Self(DurableSubject::new())
    }
    fn open(&self) -> Box<dyn Storage> {
        Box::new(DurableStorage::open(self.0.0.path(), SMALL_LOGS).expect("open"))
    }
}

/// Commits each group, opens the storage again after each, and compares.
fn check<S: StorageUnderTest>(groups: &[Vec<Batch>]) {
    let subject = S::new();
    let mut expected = Model::default();
    let mut storage = subject.open();
    assert_eq!(
        Model::load(&mut *storage).expect("load"),
        expected,
        "first use"
    );
    for batches in groups {
        storage.commit(batches).expect("commit");
        drop(storage);
        if S::REMEMBERS {
            expected.apply(batches);
        }
        storage = subject.open();
        assert_eq!(Model::load(&mut *storage).expect("load"), expected);
    }
}

fn every_field_comes_back<S: StorageUnderTest>() {
    let full = Record {
        fence: Some(Hlc::new(u64::MAX, u64::MAX, "nœud 7").expect("valid")),
        expiry: Some(Expiry {
            at_wall_ms: u64::MAX,
            ttl_ms: 1,
        }),
        ..record(vec![0, 255, b'\r', b'\n'], vec![0; 300], (u64::MAX, 127))
    };
    let fenced = Record {
        expiry: None,
        ..Record {
            key: "b".into(),
            ..full.clone()
        }
    };
    let expiring = Record {
        fence: None,
        ..Record {
            key: "c".into(),
            ..full.clone()
        }
    };
    let plain = record("d", "", (0, 0));
    let writes = [full, fenced, expiring, plain].map(Write::Put).to_vec();
    check::<S>(&[vec![Batch {
        writes,
        clock: Some((u64::MAX, 128)),
    }]]);
}

fn the_last_change_of_a_key_counts<S: StorageUnderTest>() {
    let delete = |key: &'static str| Write::Delete(Bytes::from(key));
    check::<S>(&[
        vec![
            batch(vec![
                put("a", "1"),
                put("a", "2"),
                put("b", "1"),
                delete("b"),
                delete("never"),
            ]),
            batch(vec![put("c", "1"), delete("c"), put("c", "2")]),
        ],
        vec![
            batch(vec![delete("a"), put("b", "3")]),
            batch(vec![put("a", "4")]),
        ],
        vec![batch(vec![delete("a"), delete("b"), delete("c")])],
        vec![batch(vec![put("a", "5")])],
    ]);
}

fn the_highest_clock_comes_back<S: StorageUnderTest>() {
    let clock = |wall, counter| Batch {
        writes: vec![],
        clock: Some((wall, counter)),
    };
    check::<S>(&[
        vec![clock(5, 1)],
        vec![clock(7, 0), clock(6, 9)],
        vec![batch(vec![put("a", "1")])],
        vec![clock(7, 3), batch(vec![Write::Delete("a".into())])],
    ]);
}

fn commits_of_nothing_are_fine<S: StorageUnderTest>() {
    check::<S>(&[
        vec![],
        vec![Batch::default(), Batch::default()],
        vec![batch(vec![put("a", "1")])],
        vec![],
    ]);
}

fn large_values_and_keys<S: StorageUnderTest>() {
    let value: Bytes = (0..5_000_000_u32)
        .flat_map(u32::to_le_bytes)
        .collect::<Vec<_>>()
        .into();
    let key: Bytes = vec![b'k'; 32_000].into();
    check::<S>(&[
        vec![
            batch(vec![put(key.clone(), value.clone()), put("small", "1")]),
            batch(vec![put("same", value)]),
        ],
        vec![batch(vec![put(key, "now small")])],
    ]);
}

fn many_keys<S: StorageUnderTest>() {
    let group = |from: u32, value: &'static str| {
        vec![batch(
            (from..from + 20_000)
                .map(|n| put(n.to_be_bytes().to_vec(), value))
                .collect(),
        )]
    };
    check::<S>(&[group(0, "first"), group(10_000, "second")]);
}

/// Some commits of any writes; keys are not empty.
pub(crate) fn any_history() -> impl Strategy<Value = Vec<Vec<Batch>>> {
    let key = prop::collection::vec(0_u8..4, 1..3).prop_map(Bytes::from);
    let value = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let write = prop_oneof![
        2 => (key.clone(), value, any::<(u64, u64)>(), any::<Option<(u64, u64)>>()).prop_map(
            |(key, value, version, expiry)| Write::Put(Record {
                expiry: expiry.map(|(at_wall_ms, ttl_ms)| Expiry { at_wall_ms, ttl_ms }),
                ..record(key, value, version)
            })
        ),
        1 => key.prop_map(Write::Delete),
    ];
    let batch = (
        prop::collection::vec(write, 0..6),
        any::<Option<(u64, u64)>>(),
    )
        .prop_map(|(writes, clock)| Batch { writes, clock });
    prop::collection::vec(prop::collection::vec(batch, 0..4), 1..12)
}

macro_rules! conformance {
    ($name:ident, $subject:ty) => {
        mod $name {
            use super::*;

            #[test]
            fn every_field_comes_back() {
                super::every_field_comes_back::<$subject>();
            }
            #[test]
            fn the_last_change_of_a_key_counts() {
                super::the_last_change_of_a_key_counts::<$subject>();
            }
            #[test]
            fn the_highest_clock_comes_back() {
                super::the_highest_clock_comes_back::<$subject>();
            }
            #[test]
            fn commits_of_nothing_are_fine() {
                super::commits_of_nothing_are_fine::<$subject>();
            }
            #[test]
            fn large_values_and_keys() {
                super::large_values_and_keys::<$subject>();
            }
            #[test]
            fn many_keys() {
                super::many_keys::<$subject>();
            }
            proptest! {
                #![proptest_config(ProptestConfig::with_cases(24))]
                #[test]
                fn any_history_comes_back(groups in any_history()) {
                    check::<$subject>(&groups);
                }
            }
        }
    };
}

conformance!(memory, MemorySubject);
conformance!(durable, DurableSubject);
conformance!(durable_with_small_logs, DurableSmallLogs);
