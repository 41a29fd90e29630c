//! Output of a connection that waits to be sent.
use super::Memory;
use bytes::BytesMut;
use std::collections::VecDeque;

/// Maximum size of a buffer that is kept for reuse.
const MAX_SPARE_BYTES: usize = 64 * 1024;

/// Packets that are sent once the write `sequence` is durable.
#[derive(Debug)]
struct Stage {
    sequence: u64,
    packets: BytesMut,
    /// Number of PUBACKs among them.
    acknowledgements: u32,
    /// Whether [`Output::announce`] has announced the write.
    is_announced: bool,
}

/// A PUBACK that waits for an earlier one.
#[derive(Debug)]
enum Promised {
    /// The PUBACK is not known yet.
    Open,
    /// The PUBACK is encoded, and waits for the write `hold` as well.
    Kept { hold: u64, packet: BytesMut },
}

/// The position of a promised PUBACK among those of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// Encoded packets that wait to be sent.
///
/// A packet that depends on a write waits until the write is durable. Other packets do not wait for it and are sent
/// before it. The order that MQTT 5 requires is kept:
///
/// - PUBACKs are in the order of their PUBLISHes [MQTT-4.6.0-2]. A PUBACK waits for the write of the one before it. If
///   that one is only [promised](Output::promise), the PUBACK waits for it as well.
/// - Messages of one client to one topic keep their order [MQTT-4.6.0-5], since they never wait.
///
/// Packets that wait for the same write keep their order. Of two packets about one key, the later one waits at least as
/// long.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Output that may be sent now.
    ready: BytesMut,
    /// Number of PUBACKs in it.
    ready_acknowledgements: u32,
    /// Output that waits, by ascending sequence.
    stages: VecDeque<Stage>,
    /// Bytes and PUBACKs in all stages.
    held_bytes: usize,
    held_acknowledgements: u32,
    /// The write that the last PUBACK waits for, or has waited for.
    last_acknowledgement: u64,
    /// PUBACKs from the first one on that is not known yet.
    promised: VecDeque<Promised>,
    /// The position of the first of them.
    first_promised: u64,
    has_unannounced: bool,
    /// An empty buffer of a former stage.
    spare: BytesMut,
}

impl Output {
    /// Borrows memory for the next output.
    pub(crate) fn borrow_memory(&mut self, memory: &mut Memory) {
        memory.lend(&mut self.ready);
    }

    /// Returns the memory if it was not used.
    pub(crate) fn return_memory(&mut self, memory: &mut Memory) {
        if self.ready.is_empty() {
            memory.take_back(&mut self.ready);
        }
    }

    /// Returns the memory of output that was sent. If stages are in use, the next one takes it.
    pub(crate) fn has_left(&mut self, buffer: &mut BytesMut, memory: &mut Memory) {
        if self.last_acknowledgement > 0 && self.spare.capacity() == 0 {
            self.spare = std::mem::take(buffer);
            // Makes the whole buffer usable again, from its beginning.
            self.spare.reserve(1);
        } else {
            memory.take_back(buffer);
        }
    }

    /// Appends what `write` writes, which is sent once the write `hold` is durable (0: at once). After an error,
    /// nothing is appended.
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

    /// Appends a PUBACK. It is sent once the write `hold` is durable, and not before the PUBACKs that were appended or
    /// promised before it. `place` is its position if it was promised.
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

    /// Returns whether a PUBACK would be sent together with the packets that wait for the write `hold`.
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

    /// Reserves the position of a PUBACK. PUBACKs appended later wait for it.
    pub(crate) fn promise(&mut self) -> Place {
        self.promised.push_back(Promised::Open);
        Place(self.first_promised + self.promised.len() as u64 - 1)
    }

    /// Returns whether no other PUBACK has to precede this one.
    fn is_next(&self, place: Option<Place>) -> bool {
        match place {
            None => self.promised.is_empty(),
            Some(Place(place)) => place == self.first_promised && !self.promised.is_empty(),
        }
    }

    /// Stores a PUBACK that waits for an earlier one that is not known yet.
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

    /// Appends the PUBACKs whose predecessors are all known.
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

    /// Returns the write that a PUBACK for the write `hold` has to wait for, given the PUBACKs before it.
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

    /// Returns the stage of the write `sequence`, and creates it if necessary.
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

    /// Announces each write for which packets wait, once.
    pub(crate) fn announce(&mut self, mut wait: impl FnMut(u64)) {
        if std::mem::take(&mut self.has_unannounced) {
            for stage in &mut self.stages {
                if !std::mem::replace(&mut stage.is_announced, true) {
                    wait(stage.sequence);
                }
            }
        }
    }

    /// Returns the number of PUBACKs not sent yet, which the client cannot have seen.
    pub(crate) fn acknowledgements(&self) -> u32 {
        // At most the number of messages that the client may have unacknowledged.
        #[allow(clippy::cast_possible_truncation)]
        let promised = self.promised.len() as u32;
        self.ready_acknowledgements + self.held_acknowledgements + promised
    }

    /// Returns the number of bytes, including those held back.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.held_bytes
    }

    /// Returns the number of bytes that may be sent now.
    pub(crate) fn releasable(&self) -> usize {
        self.ready.len()
    }

    /// Releases the packets that wait for writes up to `durable`, which are durable now.
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

    /// Moves the output that may be sent now to the end of `to`.
    pub(crate) fn take(&mut self, to: &mut BytesMut) {
        if self.ready.is_empty() {
            return;
        }
        self.ready_acknowledgements = 0;
        if to.is_empty() {
            // Swapping the two buffers avoids a copy and an allocation.
            to.clear();
            std::mem::swap(to, &mut self.ready);
        } else {
            to.extend_from_slice(&self.ready);
            self.ready.clear();
        }
    }

    /// Drops all output.
    pub(crate) fn clear(&mut self) {
        self.drop_held();
        self.ready = BytesMut::new();
        self.ready_acknowledgements = 0;
    }

    /// Drops the output that is held back: the connection ends before it may be sent.
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
