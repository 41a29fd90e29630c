use super::*;

const LIMIT_MS: u64 = 60_000;
const EVERY_MS: u64 = 5_000;
const HOUR_MS: u64 = 3_600_000;

/// Time of the right wall clock when the monotonic clock shows zero.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// A node whose clock has this lead.
struct Node {
    clocks: Clocks,
    ahead_ms: i64,
    mono_ms: u64,
}

impl Node {
    fn new(ahead_ms: i64) -> Self {
        Self {
            clocks: Clocks::new(1, LIMIT_MS, EVERY_MS),
            ahead_ms,
            mono_ms: 0,
        }
    }

    fn now(&self) -> Now {
        Now {
            wall_ms: (BEGIN_MS + self.mono_ms)
                .checked_add_signed(self.ahead_ms)
                .unwrap(),
            mono_ms: self.mono_ms,
        }
    }

    /// Queries the clocks. The nodes found have these leads, and reported their clocks this many milliseconds before.
    fn look(&mut self, engine: Option<i64>, nodes: &[(i64, u64)]) -> Standing {
        assert!(self.clocks.take_due(self.now()));
        let right = BEGIN_MS + self.mono_ms;
        let told = nodes.iter().zip(2..).map(|((ahead_ms, ago_ms), process)| {
            (
                process,
                right.checked_add_signed(*ahead_ms).unwrap() - ago_ms,
            )
        });
        let found = FoundClocks {
            engine_ms: engine.map(|ahead_ms| right.checked_add_signed(ahead_ms).unwrap()),
            nodes: told.chain([(1, self.now().wall_ms)]).collect(),
        };
        self.clocks.found(&found, self.now());
        self.standing()
    }

    fn standing(&mut self) -> Standing {
        self.clocks.pass(self.now());
        self.clocks.standing(self.now())
    }

    fn later(&mut self, ms: u64) -> &mut Self {
        self.mono_ms += ms;
        self
    }
}

fn is_ahead(standing: Standing) -> bool {
    matches!(standing, Standing::Ahead(_))
}

#[test]
fn a_clock_that_nobody_contradicts_is_right() {
    let mut node = Node::new(0);
    assert_eq!(node.standing(), Standing::Unknown);
    assert_eq!(node.look(None, &[]), Standing::Right);
    let mut node = Node::new(0);
    assert_eq!(
        node.look(None, &[(0, 20_000), (-30_000, 0)]),
        Standing::Right
    );
    assert_eq!(
        node.later(EVERY_MS).look(None, &[(0, 100)]),
        Standing::Right
    );
}

#[test]
fn a_clock_ahead_of_most_is_not_believed_and_is_again_once_it_is_right() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.standing();
    // The reading may be old, which is not trusted either.
    assert!(is_ahead(node.look(None, &[(0, 100), (0, 100)])));
    assert!(is_ahead(
        node.later(EVERY_MS).look(None, &[(0, 100), (0, 100)])
    ));
    assert!(node.clocks.ahead_ms(node.now()) >= HOUR_MS);
    node.ahead_ms = 0;
    assert_eq!(node.standing(), Standing::Right);
    node.ahead_ms = hour;
    assert!(is_ahead(node.standing()));
}

#[test]
fn one_of_three_that_is_wrong_is_outvoted_and_of_two_the_one_ahead_gives_way() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(0);
    node.look(None, &[(-hour, 0), (0, 0)]);
    assert_eq!(
        node.later(EVERY_MS).look(None, &[(-hour, 0), (0, 0)]),
        Standing::Right
    );
    let mut node = Node::new(0);
    node.look(None, &[(-hour, 0)]);
    assert!(is_ahead(node.later(EVERY_MS).look(None, &[(-hour, 0)])));
    let mut node = Node::new(0);
    node.look(None, &[(hour, 0)]);
    assert_eq!(
        node.later(EVERY_MS).look(None, &[(hour, 0)]),
        Standing::Right
    );
    // The engine's clock counts as well.
    assert_eq!(
        node.later(EVERY_MS).look(Some(0), &[(-hour, 0)]),
        Standing::Right
    );
    let mut node = Node::new(hour);
    assert!(is_ahead(node.look(Some(0), &[])));
}

#[test]
fn those_who_are_gone_are_remembered_while_the_clock_is_wrong() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.look(None, &[(0, 0)]);
    node.later(EVERY_MS).look(None, &[(0, 0)]);
    assert!(is_ahead(node.later(EVERY_MS).look(None, &[])));
    assert!(is_ahead(node.later(HOUR_MS).look(None, &[])));
    node.ahead_ms = 0;
    assert_eq!(node.later(EVERY_MS).look(None, &[]), Standing::Right);
    // A single reading of unknown age counts only while it is there.
    let mut node = Node::new(hour);
    assert!(is_ahead(node.look(None, &[(0, 0)])));
    assert_eq!(node.later(EVERY_MS).look(None, &[]), Standing::Right);
}

#[test]
fn a_former_process_of_this_machine_does_not_vouch_for_it() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    assert!(is_ahead(node.look(Some(0), &[(hour, 100), (hour, 5_000)])));
    let mut node = Node::new(hour);
    let former = [(0, 100), (hour, 5_000), (hour, 10_000)];
    assert!(is_ahead(node.look(None, &former)));
    let later = [(0, 100), (hour, 10_000), (hour, 15_000)];
    assert!(is_ahead(node.later(EVERY_MS).look(None, &later)));
}

#[test]
fn a_step_of_a_node_that_is_alone_is_doubted_for_a_minute() {
    let mut node = Node::new(0);
    assert_eq!(node.look(None, &[]), Standing::Right);
    node.ahead_ms = 61_000;
    assert!(is_ahead(node.later(1).standing()));
    node.ahead_ms = 0;
    assert_eq!(node.later(1).standing(), Standing::Right);
    node.ahead_ms = 61_000;
    assert!(is_ahead(node.later(1).standing()));
    assert!(is_ahead(node.later(DOUBT_MS - 1).standing()));
    assert_eq!(node.later(1).standing(), Standing::Right);
}

#[test]
fn a_machine_that_has_slept_is_believed_once_others_say_so() {
    let mut node = Node::new(0);
    node.look(None, &[(0, 100)]);
    assert_eq!(
        node.later(EVERY_MS).look(None, &[(0, 100)]),
        Standing::Right
    );
    // The monotonic clock stood still meanwhile; the others' went on.
    let slept = i64::try_from(HOUR_MS).unwrap();
    node.ahead_ms += slept;
    assert!(is_ahead(node.later(1).standing()));
    assert_eq!(node.look(None, &[(slept, 100)]), Standing::Right);
}

#[test]
fn before_the_clocks_of_others_are_known_no_age_is_told_by_the_own() {
    let mut node = Node::new(i64::try_from(HOUR_MS).unwrap());
    assert!(matches!(node.clocks.age(node.now()), Age::Unknown));
    node.look(None, &[]);
    assert!(matches!(node.clocks.age(node.now()), Age::By(_)));
}

#[test]
fn ends_are_counted_by_the_clock_that_lets_entries_live_longest() {
    let hour = i64::try_from(HOUR_MS).unwrap();
    let mut node = Node::new(hour);
    node.look(None, &[(0, 0)]);
    assert!(matches!(node.clocks.age(node.now()), Age::By(earliest_ms) if earliest_ms <= BEGIN_MS));
    let mut node = Node::new(-hour);
    node.look(None, &[(0, 0)]);
    assert!(node.clocks.latest_ms(node.now()) >= BEGIN_MS);
}
