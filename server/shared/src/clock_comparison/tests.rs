use super::*;

const LIMIT_MS: u64 = 60_000;
const EVERY_MS: u64 = 5_000;
const HOUR_MS: u64 = 3_600_000;

/// Time of the right wall clock when the monotonic clock shows zero.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// A node whose clock has this lead.
struct Node {
    clocks: ClockComparison,
    ahead_ms: i64,
    mono_ms: u64,
}

impl Node {
    fn new(ahead_ms: i64) -> Self {
        Self {
            clocks: ClockComparison::new(1, LIMIT_MS, EVERY_MS),
            ahead_ms,
            mono_ms: 0,
        }
    }

    fn now(&self) -> ClockReading {
        ClockReading {
            wall_ms: (BEGIN_MS + self.mono_ms)
                .checked_add_signed(self.ahead_ms)
                .unwrap(),
            mono_ms: self.mono_ms,
        }
    }

    /// Queries the clocks. The nodes found have these leads, and reported their clocks this many milliseconds before.
    fn query_clocks(&mut self, engine: Option<i64>, nodes: &[(i64, u64)]) -> ClockStatus {
        assert!(self.clocks.take_due(self.now()));
        let right = BEGIN_MS + self.mono_ms;
        let events = nodes.iter().zip(2..).map(|((ahead_ms, ago_ms), process)| {
            (
                process,
                right.checked_add_signed(*ahead_ms).unwrap() - ago_ms,
            )
        });
        let found = ClockReadings {
            engine_ms: engine.map(|ahead_ms| right.checked_add_signed(ahead_ms).unwrap()),
            nodes: events.chain([(1, self.now().wall_ms)]).collect(),
        };
        self.clocks.readings_received(&found, self.now());
        self.status()
    }

    fn status(&mut self) -> ClockStatus {
        self.clocks.update(self.now());
        self.clocks.status(self.now())
    }

    fn advance(&mut self, ms: u64) -> &mut Self {
        self.mono_ms += ms;
        self
    }
}

fn is_ahead(standing: ClockStatus) -> bool {
    matches!(standing, ClockStatus::Ahead(_))
}

#[test]
fn a_clock_without_a_contradicting_reading_is_trusted() {
    let mut node = Node::new(0);
    assert_eq!(node.status(), ClockStatus::Unknown);
    assert_eq!(node.query_clocks(None, &[]), ClockStatus::Trusted);
    let mut node = Node::new(0);
    assert_eq!(
        node.query_clocks(None, &[(0, 20_000), (-30_000, 0)]),
        ClockStatus::Trusted
    );
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(None, &[(0, 100)]),
        ClockStatus::Trusted
    );
}

#[test]
fn a_clock_ahead_of_most_is_distrusted_until_it_is_corrected() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.status();
    // The reading may be old, which is not trusted either.
    assert!(is_ahead(node.query_clocks(None, &[(0, 100), (0, 100)])));
    assert!(is_ahead(
        node.advance(EVERY_MS)
            .query_clocks(None, &[(0, 100), (0, 100)])
    ));
    assert!(node.clocks.ahead_ms(node.now()) >= HOUR_MS);
    node.ahead_ms = 0;
    assert_eq!(node.status(), ClockStatus::Trusted);
    node.ahead_ms = hour;
    assert!(is_ahead(node.status()));
}

#[test]
fn one_wrong_clock_of_three_is_outvoted_and_of_two_the_one_ahead_is_distrusted() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(0);
    node.query_clocks(None, &[(-hour, 0), (0, 0)]);
    assert_eq!(
        node.advance(EVERY_MS)
            .query_clocks(None, &[(-hour, 0), (0, 0)]),
        ClockStatus::Trusted
    );
    let mut node = Node::new(0);
    node.query_clocks(None, &[(-hour, 0)]);
    assert!(is_ahead(
        node.advance(EVERY_MS).query_clocks(None, &[(-hour, 0)])
    ));
    let mut node = Node::new(0);
    node.query_clocks(None, &[(hour, 0)]);
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(None, &[(hour, 0)]),
        ClockStatus::Trusted
    );
    // The engine's clock counts as well.
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(Some(0), &[(-hour, 0)]),
        ClockStatus::Trusted
    );
    let mut node = Node::new(hour);
    assert!(is_ahead(node.query_clocks(Some(0), &[])));
}

#[test]
fn readings_of_stopped_nodes_count_while_the_clock_is_wrong() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.query_clocks(None, &[(0, 0)]);
    node.advance(EVERY_MS).query_clocks(None, &[(0, 0)]);
    assert!(is_ahead(node.advance(EVERY_MS).query_clocks(None, &[])));
    assert!(is_ahead(node.advance(HOUR_MS).query_clocks(None, &[])));
    node.ahead_ms = 0;
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(None, &[]),
        ClockStatus::Trusted
    );
    // A single reading of unknown age counts only while it is there.
    let mut node = Node::new(hour);
    assert!(is_ahead(node.query_clocks(None, &[(0, 0)])));
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(None, &[]),
        ClockStatus::Trusted
    );
}

#[test]
fn a_reading_of_a_former_process_of_this_machine_does_not_confirm_its_clock() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    assert!(is_ahead(
        node.query_clocks(Some(0), &[(hour, 100), (hour, 5_000)])
    ));
    let mut node = Node::new(hour);
    let former = [(0, 100), (hour, 5_000), (hour, 10_000)];
    assert!(is_ahead(node.query_clocks(None, &former)));
    let later = [(0, 100), (hour, 10_000), (hour, 15_000)];
    assert!(is_ahead(node.advance(EVERY_MS).query_clocks(None, &later)));
}

#[test]
fn a_clock_step_of_a_single_node_is_distrusted_for_a_minute() {
    let mut node = Node::new(0);
    assert_eq!(node.query_clocks(None, &[]), ClockStatus::Trusted);
    node.ahead_ms = 61_000;
    assert!(is_ahead(node.advance(1).status()));
    node.ahead_ms = 0;
    assert_eq!(node.advance(1).status(), ClockStatus::Trusted);
    node.ahead_ms = 61_000;
    assert!(is_ahead(node.advance(1).status()));
    assert!(is_ahead(node.advance(DISTRUST_MS - 1).status()));
    assert_eq!(node.advance(1).status(), ClockStatus::Trusted);
}

#[test]
fn a_clock_step_after_suspend_is_trusted_once_other_clocks_confirm_it() {
    let mut node = Node::new(0);
    node.query_clocks(None, &[(0, 100)]);
    assert_eq!(
        node.advance(EVERY_MS).query_clocks(None, &[(0, 100)]),
        ClockStatus::Trusted
    );
    // The monotonic clock stood still meanwhile; the others' went on.
    let slept = i64::try_from(HOUR_MS).unwrap();
    node.ahead_ms += slept;
    assert!(is_ahead(node.advance(1).status()));
    assert_eq!(
        node.query_clocks(None, &[(slept, 100)]),
        ClockStatus::Trusted
    );
}

#[test]
fn the_age_of_a_record_is_unknown_before_the_first_comparison() {
    let mut node = Node::new(i64::try_from(HOUR_MS).unwrap());
    assert!(matches!(node.clocks.age(node.now()), RecordAge::Unknown));
    node.query_clocks(None, &[]);
    assert!(matches!(
        node.clocks.age(node.now()),
        RecordAge::PossiblyOld(_)
    ));
}

#[test]
fn expiry_is_computed_with_the_clock_that_expires_entries_last() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.query_clocks(None, &[(0, 0)]);
    assert!(
        matches!(node.clocks.age(node.now()), RecordAge::PossiblyOld(earliest_ms) if earliest_ms <= BEGIN_MS)
    );
    let mut node = Node::new(-hour);
    node.query_clocks(None, &[(0, 0)]);
    assert!(node.clocks.latest_ms(node.now()) >= BEGIN_MS);
}
