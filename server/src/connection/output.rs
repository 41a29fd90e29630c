//! The bytes that wait to be sent on one connection.
use super::Memory;
use bytes::BytesMut;
use std::collections::VecDeque;

/// A buffer is kept for what comes next up to this size.
const MAX_SPARE_BYTES: usize = 64 * 1024;

/// Packets that leave once the write `sequence` is durable.
#[derive(Debug)]
struct Stage {
    sequence: u64,
    packets: BytesMut,
    /// PUBACKs among them.
    acknowledgements: u32,
    /// Whether [`Output::announce`] has named it.
    is_announced: bool,
}

/// A PUBACK that waits for one before it.
#[derive(Debug)]
enum Promised {
    /// It is not known yet what it says.
    Open,
    /// It says this, and waits for this write besides.
    Kept { hold: u64, packet: BytesMut },
}

/// The place of a PUBACK that is to come, among those of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// Encoded packets on their way out.
///
/// A packet that tells of a write which is not durable yet waits until it is. Others do not wait for it: they leave
/// before it. MQTT 5 wants a few things in order all the same, and they are: PUBACKs are in the order of their PUBLISHes
/// [MQTT-4.6.0-2], since a PUBACK waits for what the one before it waits for, and for the one itself if it is only
/// [promised](Output::promise); and messages of one client to one topic
/// keep theirs [MQTT-4.6.0-5], since they never wait. Packets that wait for the same write keep their order, and what
/// is told of one key waits longer, the later it is told.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// What may leave now.
    ready: BytesMut,
    /// PUBACKs in it.
    ready_acknowledgements: u32,
    /// By rising sequence.
    stages: VecDeque<Stage>,
    /// Bytes and PUBACKs in all stages.
    held_bytes: usize,
    held_acknowledgements: u32,
    /// What the last PUBACK waits for, or has waited for.
    last_acknowledgement: u64,
    /// PUBACKs behind which nothing is known of one, that one first.
    promised: VecDeque<Promised>,
    /// The place of the first of them.
    first_promised: u64,
    has_unannounced: bool,
    /// An empty buffer of a former stage.
    spare: BytesMut,
}

impl Output {
    /// Borrows memory for what comes next.
    pub(crate) fn borrow_memory(&mut self, memory: &mut Memory) {
        memory.lend(&mut self.ready);
    }

    /// Gives it back if it was not needed.
    pub(crate) fn return_memory(&mut self, memory: &mut Memory) {
        if self.ready.is_empty() {
            memory.take_back(&mut self.ready);
        }
    }

    /// Gives back the memory of what has left, which the next stage takes if there are any.
    pub(crate) fn has_left(&mut self, buffer: &mut BytesMut, memory: &mut Memory) {
        if self.last_acknowledgement > 0 && self.spare.capacity() == 0 {
            self.spare = std::mem::take(buffer);
            // From its beginning again.
            self.spare.reserve(1);
        } else {
            memory.take_back(buffer);
        }
    }

    /// Appends what `write` writes. It leaves once the write `hold` is durable; 0 is durable. After an error, nothing is
    /// appended.
    pub(crate) fn append<T, E>(
        &mut self,
        hold: u64,
        write: impl FnOnce(&mut BytesMut) -> Result<T, E>,
    ) -> Result<T, E> {
        let out = match hold {
            0 => &mut self.ready,
            hold => &mut self.stage(hold).packets,
        };
        let before = out.len();
        let result = write(out);
        if result.is_err() {
            out.truncate(before);
        }
        let added = out.len() - before;
        if hold > 0 {
            self.held_bytes += added;
        }
        result
    }

    /// Appends a PUBACK, which leaves once the write `hold` is durable, and not before those that were appended or promised
    /// before it. `place` is that of the promise which it keeps, if there was one.
    pub(crate) fn acknowledge<E>(
        &mut self,
        hold: u64,
        place: Option<Place>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_next(place) {
            return self.acknowledge_behind(hold, place, write);
        }
        let hold = self.acknowledgement_hold(hold);
        self.append(hold, write)?;
        self.acknowledged_with(hold, place);
        Ok(())
    }

    /// Whether a PUBACK would leave together with what waits for the write `hold`.
    pub(crate) fn leaves_with(&self, hold: u64, place: Option<Place>) -> bool {
        self.is_next(place) && self.acknowledgement_hold(hold) == hold
    }

    /// Counts a PUBACK that was just [appended](Self::append) with a hold with which it [leaves](Self::leaves_with).
    pub(crate) fn acknowledged_with(&mut self, hold: u64, place: Option<Place>) {
        self.count_acknowledgement(hold);
        if place.is_some() {
            self.promised.pop_front();
            self.first_promised += 1;
            self.keep_promises();
        }
    }

    /// A PUBACK is to come here; those appended later wait for it.
    pub(crate) fn promise(&mut self) -> Place {
        self.promised.push_back(Promised::Open);
        Place(self.first_promised + self.promised.len() as u64 - 1)
    }

    /// Whether no PUBACK is to come before this one.
    fn is_next(&self, place: Option<Place>) -> bool {
        match place {
            None => self.promised.is_empty(),
            Some(Place(place)) => place == self.first_promised && !self.promised.is_empty(),
        }
    }

    /// Writes down a PUBACK that waits for one of which nothing is known.
    #[inline(never)]
    fn acknowledge_behind<E>(
        &mut self,
        hold: u64,
        place: Option<Place>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut packet = BytesMut::new();
        write(&mut packet)?;
        let Place(place) = place.unwrap_or_else(|| self.promise());
        let offset = place.checked_sub(self.first_promised);
        if let Some(promised) = offset
            .and_then(|offset| usize::try_from(offset).ok())
            .and_then(|offset| self.promised.get_mut(offset))
        {
            self.held_bytes += packet.len();
            *promised = Promised::Kept { hold, packet };
        }
        Ok(())
    }

    /// Appends the PUBACKs of which everything before them is known.
    fn keep_promises(&mut self) {
        while let Some(Promised::Kept { .. }) = self.promised.front()
            && let Some(Promised::Kept { hold, packet }) = self.promised.pop_front()
        {
            self.first_promised += 1;
            self.held_bytes -= packet.len();
            let hold = self.acknowledgement_hold(hold);
            let copy = |out: &mut BytesMut| {
                out.extend_from_slice(&packet);
                Ok::<_, std::convert::Infallible>(())
            };
            let Ok(()) = self.append(hold, copy);
            self.count_acknowledgement(hold);
        }
    }

    /// What a PUBACK waits for that would not leave before the write `hold` is durable.
    fn acknowledgement_hold(&self, hold: u64) -> u64 {
        match self.stages.front() {
            Some(first) if first.sequence <= self.last_acknowledgement => {
                hold.max(self.last_acknowledgement)
            }
            _ => hold,
        }
    }

    fn count_acknowledgement(&mut self, hold: u64) {
        if hold == 0 {
            self.ready_acknowledgements += 1;
        } else {
            self.stage(hold).acknowledgements += 1;
            self.held_acknowledgements += 1;
            self.last_acknowledgement = hold;
        }
    }

    /// The stage of the write `sequence`, made if there is none.
    fn stage(&mut self, sequence: u64) -> &mut Stage {
        let index = match self.stages.back() {
            Some(last) if last.sequence == sequence => self.stages.len() - 1,
            Some(last) if last.sequence > sequence => self
                .stages
                .partition_point(|stage| stage.sequence < sequence),
            _ => self.stages.len(),
        };
        let is_there = self
            .stages
            .get(index)
            .is_some_and(|stage| stage.sequence == sequence);
        if !is_there {
            self.has_unannounced = true;
            let stage = Stage {
                sequence,
                packets: std::mem::take(&mut self.spare),
                acknowledgements: 0,
                is_announced: false,
            };
            self.stages.insert(index, stage);
        }
        &mut self.stages[index]
    }

    /// Names each write for which something waits, once.
    pub(crate) fn announce(&mut self, mut wait: impl FnMut(u64)) {
        if std::mem::take(&mut self.has_unannounced) {
            for stage in &mut self.stages {
                if !std::mem::replace(&mut stage.is_announced, true) {
                    wait(stage.sequence);
                }
            }
        }
    }

    /// PUBACKs that the client cannot have seen, since they are still here.
    pub(crate) fn acknowledgements(&self) -> u32 {
        // No more than the client may have unacknowledged.
        #[allow(clippy::cast_possible_truncation)]
        let promised = self.promised.len() as u32;
        self.ready_acknowledgements + self.held_acknowledgements + promised
    }

    /// Bytes here, held ones included.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.held_bytes
    }

    /// Bytes that may leave now.
    pub(crate) fn releasable(&self) -> usize {
        self.ready.len()
    }

    /// All writes up to `durable` are durable.
    pub(crate) fn release(&mut self, durable: u64) {
        while let Some(stage) = self.stages.front()
            && stage.sequence <= durable
            && let Some(stage) = self.stages.pop_front()
        {
            let mut packets = stage.packets;
            self.held_bytes -= packets.len();
            self.held_acknowledgements -= stage.acknowledgements;
            self.ready_acknowledgements += stage.acknowledgements;
            if self.ready.is_empty() {
                std::mem::swap(&mut self.ready, &mut packets);
            } else {
                self.ready.extend_from_slice(&packets);
            }
            packets.clear();
            if packets.capacity() <= MAX_SPARE_BYTES {
                self.spare = packets;
            }
        }
    }

    /// Moves what may leave now to the end of `to`.
    pub(crate) fn take(&mut self, to: &mut BytesMut) {
        if self.ready.is_empty() {
            return;
        }
        self.ready_acknowledgements = 0;
        if to.is_empty() {
            // The two buffers change places, so that nothing is copied or allocated.
            to.clear();
            std::mem::swap(to, &mut self.ready);
        } else {
            to.extend_from_slice(&self.ready);
            self.ready.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.drop_held();
        self.ready = BytesMut::new();
        self.ready_acknowledgements = 0;
    }

    /// Forgets what is held: the connection ends before it may be told.
    pub(crate) fn drop_held(&mut self) {
        self.stages.clear();
        self.first_promised += self.promised.len() as u64;
        self.promised.clear();
        self.held_bytes = 0;
        self.held_acknowledgements = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(output: &mut Output, hold: u64, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.append(hold, write).unwrap();
    }

    fn acknowledge(output: &mut Output, hold: u64, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.acknowledge(hold, None, write).unwrap();
    }

    fn keep(output: &mut Output, hold: u64, place: Place, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.acknowledge(hold, Some(place), write).unwrap();
    }

    fn taken(output: &mut Output) -> Vec<u8> {
        let mut to = BytesMut::new();
        output.take(&mut to);
        to.to_vec()
    }

    #[test]
    fn what_waits_for_less_leaves_first() {
        let mut output = Output::default();
        put(&mut output, 0, b"a");
        put(&mut output, 3, b"d");
        put(&mut output, 5, b"g");
        put(&mut output, 0, b"b");
        put(&mut output, 3, b"e");
        put(&mut output, 2, b"c");
        put(&mut output, 4, b"f");
        assert_eq!((output.len(), output.releasable()), (7, 2));
        assert_eq!(taken(&mut output), b"ab");
        assert_eq!(taken(&mut output), b"");
        output.release(3);
        assert_eq!(output.len(), 5);
        put(&mut output, 0, b"!");
        assert_eq!(taken(&mut output), b"cde!");
        output.release(9);
        assert_eq!(taken(&mut output), b"fg");
        assert_eq!(output.len(), 0);
    }

    #[test]
    fn acknowledgements_keep_their_order_and_are_counted_until_they_leave() {
        let mut output = Output::default();
        acknowledge(&mut output, 0, b"1");
        acknowledge(&mut output, 3, b"2");
        put(&mut output, 0, b"x");
        acknowledge(&mut output, 0, b"3");
        acknowledge(&mut output, 2, b"4");
        acknowledge(&mut output, 4, b"5");
        assert_eq!(output.acknowledgements(), 5);
        assert_eq!(taken(&mut output), b"1x");
        assert_eq!(output.acknowledgements(), 4);
        output.release(2);
        assert_eq!(taken(&mut output), b"");
        output.release(3);
        assert_eq!(output.acknowledgements(), 4);
        assert_eq!(taken(&mut output), b"234");
        assert_eq!(output.acknowledgements(), 1);
        output.release(4);
        acknowledge(&mut output, 0, b"6");
        assert_eq!(taken(&mut output), b"56");
        assert_eq!(output.acknowledgements(), 0);
    }

    #[test]
    fn acknowledgements_wait_for_one_that_was_promised_before() {
        let mut output = Output::default();
        let first = output.promise();
        acknowledge(&mut output, 0, b"2");
        let third = output.promise();
        acknowledge(&mut output, 3, b"4");
        put(&mut output, 0, b"x");
        assert_eq!((output.len(), output.acknowledgements()), (3, 4));
        assert!(!output.leaves_with(0, Some(third)) && output.leaves_with(0, Some(first)));
        keep(&mut output, 0, third, b"3");
        assert_eq!(taken(&mut output), b"x");
        keep(&mut output, 2, first, b"1");
        assert_eq!((output.len(), output.acknowledgements()), (4, 4));
        acknowledge(&mut output, 0, b"5");
        assert_eq!(taken(&mut output), b"");
        output.release(2);
        assert_eq!(taken(&mut output), b"123");
        output.release(3);
        assert_eq!(taken(&mut output), b"45");
        assert_eq!((output.len(), output.acknowledgements()), (0, 0));
        acknowledge(&mut output, 0, b"6");
        assert_eq!(taken(&mut output), b"6");
    }

    #[test]
    fn a_promise_that_was_dropped_is_not_kept() {
        let mut output = Output::default();
        let dropped = output.promise();
        acknowledge(&mut output, 0, b"1");
        output.drop_held();
        let next = output.promise();
        keep(&mut output, 0, dropped, b"!");
        assert_eq!((output.len(), output.acknowledgements()), (0, 1));
        keep(&mut output, 0, next, b"2");
        assert_eq!(taken(&mut output), b"2");
    }

    #[test]
    fn each_write_that_is_waited_for_is_announced_once() {
        let mut output = Output::default();
        let mut announced = Vec::new();
        put(&mut output, 0, b"a");
        put(&mut output, 4, b"c");
        put(&mut output, 2, b"b");
        output.announce(|sequence| announced.push(sequence));
        put(&mut output, 4, b"c");
        output.announce(|sequence| announced.push(sequence));
        put(&mut output, 3, b"b");
        output.announce(|sequence| announced.push(sequence));
        assert_eq!(announced, [2, 4, 3]);
    }

    #[test]
    fn what_cannot_be_written_leaves_no_trace() {
        let mut output = Output::default();
        for hold in [0, 1] {
            put(&mut output, hold, b"a");
            let failing = |out: &mut BytesMut| {
                out.extend_from_slice(b"half");
                Err(())
            };
            output.append::<(), _>(hold, failing).unwrap_err();
            output.acknowledge(hold, None, failing).unwrap_err();
        }
        assert_eq!((output.len(), output.acknowledgements()), (2, 0));
        output.release(1);
        assert_eq!(taken(&mut output), b"aa");
    }

    #[test]
    fn held_output_can_be_dropped() {
        let mut output = Output::default();
        put(&mut output, 0, b"ab");
        acknowledge(&mut output, 1, b"cd");
        output.drop_held();
        put(&mut output, 0, b"!");
        assert_eq!((output.len(), output.acknowledgements()), (3, 0));
        assert_eq!(taken(&mut output), b"ab!");
    }

    #[test]
    fn output_is_appended_to_what_was_not_sent_yet() {
        let mut output = Output::default();
        put(&mut output, 0, b"b");
        let mut to = BytesMut::from(&b"a"[..]);
        output.take(&mut to);
        assert_eq!(&to[..], b"ab");
    }
}
