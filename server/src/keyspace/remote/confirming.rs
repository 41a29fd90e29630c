//! Reads that are answered from what is known here, once the engine has said how far it is: as a read of the engine between question and
//! answer would answer them.
use super::Remote;
use super::engine::{Ask, AskId, EngineError, Link, Revision};
use super::task::TaskId;
use crate::clock::Now;

impl<L: Link> Remote<L> {
    /// Asks how far the engine is, if somebody waits for that.
    pub(super) fn ask_revision(&mut self) {
        while self.tasks.confirming.is_due() {
            let ask = self.ask(Ask::Revision);
            self.tasks.confirming.asked(ask);
        }
    }

    /// So far the engine was.
    pub(super) fn told_revision(
        &mut self,
        ask: AskId,
        result: Result<Revision, Option<EngineError>>,
        now: Now,
    ) {
        let waiting = self.tasks.confirming.answered(ask);
        match (result, self.known()) {
            (Ok(at), Some(known)) if at <= known => self.confirm(waiting, now),
            (Ok(at), Some(_)) => self.tasks.confirming.wait(at, now.mono_ms, waiting),
            _ => self.tasks.unconfirmed(waiting),
        }
    }

    /// All changes up to this revision are known now.
    pub(super) fn confirm_until(&mut self, known: Revision, now: Now) {
        let waiting = self.tasks.confirming.take_known(known);
        self.confirm(waiting, now);
    }

    fn confirm(&mut self, waiting: Vec<TaskId>, now: Now) {
        let stamps = self.stamps(now);
        let count = self
            .tasks
            .confirmed(waiting, &mut self.guesses, &self.sights, stamps);
        self.standing.confirmed(count);
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace::Keyspace;
    use crate::keyspace::remote::scripted::{KEY, Node, VALUE, record, seen, value};
    use crate::keyspace::remote::{Ask, AskId, EngineError, News, Revision, Verdict};
    use bytes::Bytes;

    static OTHER: Bytes = Bytes::from_static(b"another value");

    /// One that watches until revision 5, and knows that the key has had its value since revision 4. The engine says how far it is.
    fn node() -> Node {
        let mut node = Node::new();
        node.remote.link.counts_revisions = true;
        node
    }

    /// How far the engine is was asked for a read.
    fn asking(node: &mut Node, at_ms: u64) -> AskId {
        assert_eq!(node.get_now(at_ms), None);
        node.asked(&Ask::Revision)
    }

    fn changed(node: &Node, at: u64, value: &Bytes) -> News {
        let change = (KEY.clone(), Some(record(at, value)));
        News::Changes(node.watch, Revision(at), vec![change])
    }

    #[test]
    fn a_read_of_what_is_known_asks_only_how_far_the_engine_is() {
        let mut node = node();
        let ask = asking(&mut node, 1);
        let told = News::Revision(ask, Ok(Revision(5)));
        assert_eq!(node.advance(2, [told]), [value(4, &VALUE)]);
        assert_eq!(node.remote.engine().map(|it| it.confirmed), Some(1));
        assert!(node.remote.link.asks.is_empty());
    }

    #[test]
    fn one_question_is_for_all_that_came_before_it_and_for_no_other() {
        let mut node = node();
        let first = asking(&mut node, 1);
        let mut last = first;
        for _ in 1..4 {
            last = asking(&mut node, 1);
        }
        // These wait until fewer are under way.
        assert_eq!([node.get_now(1), node.get_now(1)], [None, None]);
        assert!(node.remote.link.asks.is_empty());
        let told = News::Revision(first, Ok(Revision(5)));
        assert_eq!(node.advance(2, [told]).len(), 1);
        let both = node.asked(&Ask::Revision);
        let told = News::Revision(both, Ok(Revision(5)));
        assert_eq!(node.advance(3, [told]).len(), 2);
        let told = News::Revision(last, Ok(Revision(5)));
        assert_eq!(node.advance(4, [told]).len(), 1);
    }

    #[test]
    fn a_read_waits_for_the_changes_that_the_engine_had_made() {
        let mut node = node();
        let ask = asking(&mut node, 1);
        assert_eq!(node.advance(2, [News::Revision(ask, Ok(Revision(7)))]), []);
        let change = changed(&node, 6, &VALUE);
        assert_eq!(node.advance(3, [change]), []);
        let change = changed(&node, 7, &OTHER);
        assert_eq!(node.advance(4, [change]), [value(7, &OTHER)]);
    }

    #[test]
    fn a_read_does_not_wait_long_for_a_watch_that_is_late_and_the_next_ones_do_not_at_all() {
        let mut node = node();
        let ask = asking(&mut node, 1);
        assert_eq!(node.advance(2, [News::Revision(ask, Ok(Revision(7)))]), []);
        assert_eq!(node.remote.next_ms(), Some(22));
        assert_eq!(node.advance(21, []), []);
        assert!(node.remote.link.asks.is_empty());
        assert_eq!(node.advance(22, []), []);
        let look = node.asked(&Ask::Look(KEY.clone()));
        let read = News::Read(look, Ok(vec![seen(7, &OTHER)]));
        assert_eq!(node.advance(23, [read]), [value(7, &OTHER)]);
        assert_eq!(node.get_now(24), None);
        let look = node.asked(&Ask::Look(KEY.clone()));
        let read = News::Read(look, Ok(vec![seen(7, &OTHER)]));
        assert_eq!(node.advance(25, [read]).len(), 1);
        // It has caught up.
        let change = changed(&node, 7, &OTHER);
        assert_eq!(node.advance(26, [change]), []);
        asking(&mut node, 27);
    }

    #[test]
    fn without_an_answer_or_a_watch_the_engine_is_read() {
        for error in [None, Some(EngineError::Foreign("counter".into()))] {
            let mut node = node();
            let ask = asking(&mut node, 1);
            assert_eq!(node.advance(2, [News::Revision(ask, Err(error))]), []);
            node.asked(&Ask::Look(KEY.clone()));
        }
        let mut node = node();
        let asks = [asking(&mut node, 1), asking(&mut node, 1)];
        let told = News::Revision(asks[0], Ok(Revision(7)));
        let lost = News::WatchLost(node.watch, None);
        assert_eq!(node.advance(2, [told, lost]), []);
        node.asked(&Ask::Look(KEY.clone()));
        let told = News::Revision(asks[1], Ok(Revision(5)));
        assert_eq!(node.advance(3, [told]), []);
        node.asked(&Ask::Look(KEY.clone()));
    }

    #[test]
    fn what_was_forgotten_meanwhile_is_read() {
        let mut node = node();
        let ask = asking(&mut node, 1);
        let purged = News::Changes(node.watch, Revision(6), vec![(KEY.clone(), None)]);
        let told = News::Revision(ask, Ok(Revision(6)));
        assert_eq!(node.advance(2, [purged, told]), []);
        node.asked(&Ask::Look(KEY.clone()));
    }

    #[test]
    fn a_change_of_the_same_key_waits_for_the_reads_before_it() {
        let mut node = node();
        let asks = [asking(&mut node, 1), asking(&mut node, 1)];
        assert_eq!(node.set(1), None);
        assert_eq!(node.get_now(1), None);
        assert!(node.remote.link.asks.is_empty());
        for ask in asks {
            let told = News::Revision(ask, Ok(Revision(5)));
            assert_eq!(node.advance(2, [told]), [value(4, &VALUE)]);
        }
        let (commit, ask) = node.remote.link.asks.pop().unwrap();
        assert!(matches!(ask, Ask::Commit(_)), "{ask:?}");
        let made = News::Committed(commit, Verdict::Done(Revision(6)));
        assert_eq!(node.advance(3, [made]).len(), 1);
        // The read behind it asks only now.
        let ask = node.asked(&Ask::Revision);
        assert_eq!(node.advance(4, [News::Revision(ask, Ok(Revision(6)))]), []);
        let change = News::Changes(node.watch, Revision(6), vec![]);
        assert_eq!(node.advance(5, [change]).len(), 1);
    }
}
