//! Output of a connection that waits to be sent.
use super::BufferPool;
use bytes::BytesMut;
use std::collections::VecDeque;

/// Maximum size of a buffer that is kept for reuse.
const MAX_SPARE_BYTES: usize = 64 * 1024;

/// Packets that are sent once the write `commit_index` is durable.
#[derive(Debug)]
struct HeldPackets {
    commit_index: u64,
    packets: BytesMut,
    /// Number of PUBACKs among them.
    acknowledgements: u32,
    /// Whether [`Output::announce`] has announced the write.
    is_announced: bool,
}

/// A PUBACK that waits for an earlier one.
#[derive(Debug)]
enum ReservedAck {
    /// The PUBACK is not known yet.
    Unknown,
    /// The PUBACK is encoded, and waits for this commit as well.
    Encoded(u64, BytesMut),
}

/// The position of a promised PUBACK among those of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSlot(u64);

/// Encoded packets that wait to be sent.
///
/// A packet that depends on a write waits until the write is durable. Other packets do not wait for it and are sent
/// before it. The order that MQTT 5 requires is kept:
///
/// - PUBACKs are in the order of their PUBLISHes [MQTT-4.6.0-2]. A PUBACK waits for the write of the one before it. If
///   that one is only [promised](Output::reserve_ack), the PUBACK waits for it as well.
/// - Messages of one client to one topic keep their order [MQTT-4.6.0-5], since they never wait.
///
/// Packets that wait for the same write keep their order. Of two packets about one key, the later one waits at least as
/// long.
#[derive(Debug, Default)]
pub struct Output {
    /// Output that may be sent now.
    ready: BytesMut,
    /// Number of PUBACKs in it.
    ready_acknowledgements: u32,
    /// Output that waits, by ascending sequence.
    held: VecDeque<HeldPackets>,
    /// Bytes and PUBACKs in all stages.
    held_bytes: usize,
    held_acknowledgements: u32,
    /// The write that the last PUBACK waits for, or has waited for.
    last_ack_commit: u64,
    /// PUBACKs from the first one on that is not known yet.
    reserved_acks: VecDeque<ReservedAck>,
    /// The position of the first of them.
    first_reserved: u64,
    has_unannounced: bool,
    /// An empty buffer of a former stage.
    spare_buffer: BytesMut,
}

impl Output {
    /// Borrows memory for the next output.
    pub fn acquire_buffer(&mut self, memory: &mut BufferPool) {
        memory.acquire(&mut self.ready);
    }

    /// Returns the memory if it was not used.
    pub fn release_buffer(&mut self, memory: &mut BufferPool) {
        if self.ready.is_empty() {
            memory.release(&mut self.ready);
        }
    }

    /// Returns the memory of output that was sent. If stages are in use, the next one takes it.
    pub fn recycle_buffer(&mut self, buffer: &mut BytesMut, memory: &mut BufferPool) {
        if self.last_ack_commit > 0 && self.spare_buffer.capacity() == 0 {
            self.spare_buffer = std::mem::take(buffer);
            // Makes the whole buffer usable again, from its beginning.
            self.spare_buffer.reserve(1);
        } else {
            memory.release(buffer);
        }
    }

    /// Appends what `write` writes, which is sent once the commit `commit_index` is durable (0: at once). After an
    /// error, nothing is appended.
    pub fn append<T, E>(
        &mut self,
        commit_index: u64,
        write: impl FnOnce(&mut BytesMut) -> Result<T, E>,
    ) -> Result<T, E> {
        let out = match commit_index {
            0 => &mut self.ready,
            _ => &mut self.held_for(commit_index).packets,
        };
        let before = out.len();
        let result = write(out);
        if result.is_err() {
            out.truncate(before);
        }
        let added = out.len() - before;
        if commit_index > 0 {
            self.held_bytes += added;
        }
        result
    }

    /// Appends a PUBACK. It is sent once the commit `commit_index` is durable, and not before the PUBACKs that were
    /// appended or reserved before it. `slot` is its position if it was [reserved](Self::reserve_ack).
    pub fn acknowledge<E>(
        &mut self,
        commit_index: u64,
        slot: Option<AckSlot>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_next_ack(slot) {
            return self.hold_ack(commit_index, slot, write);
        }
        let commit_index = self.ack_commit_index(commit_index);
        self.append(commit_index, write)?;
        self.count_ack_with(commit_index, slot);
        Ok(())
    }

    /// Returns whether a PUBACK would be sent together with the packets that wait for the commit `commit_index`.
    pub fn is_sent_with(&self, commit_index: u64, slot: Option<AckSlot>) -> bool {
        self.is_next_ack(slot) && self.ack_commit_index(commit_index) == commit_index
    }

    /// Counts a PUBACK that was just [appended](Self::append) with the commit with which it
    /// is [sent](Self::is_sent_with).
    pub fn count_ack_with(&mut self, commit_index: u64, slot: Option<AckSlot>) {
        self.count_acknowledgement(commit_index);
        if slot.is_some() {
            self.reserved_acks.pop_front();
            self.first_reserved += 1;
            self.flush_encoded_acks();
        }
    }

    /// Reserves the position of a PUBACK. PUBACKs appended later wait for it.
    pub(crate) fn reserve_ack(&mut self) -> AckSlot {
        self.reserved_acks.push_back(ReservedAck::Unknown);
        AckSlot(self.first_reserved + self.reserved_acks.len() as u64 - 1)
    }

    /// Returns whether no other PUBACK has to precede this one.
    fn is_next_ack(&self, slot: Option<AckSlot>) -> bool {
        match slot {
            None => self.reserved_acks.is_empty(),
            Some(AckSlot(slot)) => slot == self.first_reserved && !self.reserved_acks.is_empty(),
        }
    }

    /// Stores a PUBACK that waits for an earlier one that is not known yet.
    #[inline(never)]
    fn hold_ack<E>(
        &mut self,
        commit_index: u64,
        slot: Option<AckSlot>,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut packet = BytesMut::new();
        write(&mut packet)?;
        let AckSlot(slot) = slot.unwrap_or_else(|| self.reserve_ack());
        let offset = slot.checked_sub(self.first_reserved);
        if let Some(promised) = offset
            .and_then(|offset| usize::try_from(offset).ok())
            .and_then(|offset| self.reserved_acks.get_mut(offset))
        {
            self.held_bytes += packet.len();
            *promised = ReservedAck::Encoded(commit_index, packet);
        }
        Ok(())
    }

    /// Appends the PUBACKs whose predecessors are all known.
    fn flush_encoded_acks(&mut self) {
        while let Some(ReservedAck::Encoded(..)) = self.reserved_acks.front()
            && let Some(ReservedAck::Encoded(commit, packet)) = self.reserved_acks.pop_front()
        {
            self.first_reserved += 1;
            self.held_bytes -= packet.len();
            let commit_index = self.ack_commit_index(commit);
            let copy = |out: &mut BytesMut| {
                out.extend_from_slice(&packet);
                Ok::<_, std::convert::Infallible>(())
            };
            let Ok(()) = self.append(commit_index, copy);
            self.count_acknowledgement(commit_index);
        }
    }

    /// Returns the commit that a PUBACK for `commit_index` has to wait for, given the PUBACKs before it.
    fn ack_commit_index(&self, commit_index: u64) -> u64 {
        match self.held.front() {
            Some(first) if first.commit_index <= self.last_ack_commit => {
                commit_index.max(self.last_ack_commit)
            }
            _ => commit_index,
        }
    }

    fn count_acknowledgement(&mut self, commit_index: u64) {
        if commit_index == 0 {
            self.ready_acknowledgements += 1;
        } else {
            self.held_for(commit_index).acknowledgements += 1;
            self.held_acknowledgements += 1;
            self.last_ack_commit = commit_index;
        }
    }

    /// Returns the stage of the write `sequence`, and creates it if necessary.
    fn held_for(&mut self, sequence: u64) -> &mut HeldPackets {
        let index = match self.held.back() {
            Some(last) if last.commit_index == sequence => self.held.len() - 1,
            Some(last) if last.commit_index > sequence => self
                .held
                .partition_point(|stage| stage.commit_index < sequence),
            _ => self.held.len(),
        };
        let is_there = self
            .held
            .get(index)
            .is_some_and(|stage| stage.commit_index == sequence);
        if !is_there {
            self.has_unannounced = true;
            let stage = HeldPackets {
                commit_index: sequence,
                packets: std::mem::take(&mut self.spare_buffer),
                acknowledgements: 0,
                is_announced: false,
            };
            self.held.insert(index, stage);
        }
        &mut self.held[index]
    }

    /// Announces each write for which packets wait, once.
    pub fn announce(&mut self, mut wait: impl FnMut(u64)) {
        if std::mem::take(&mut self.has_unannounced) {
            for stage in &mut self.held {
                if !std::mem::replace(&mut stage.is_announced, true) {
                    wait(stage.commit_index);
                }
            }
        }
    }

    /// Returns the number of PUBACKs not sent yet, which the client cannot have seen.
    pub(crate) fn acknowledgements(&self) -> u32 {
        // At most the number of messages that the client may have unacknowledged.
        #[allow(clippy::cast_possible_truncation)]
        let promised = self.reserved_acks.len() as u32;
        self.ready_acknowledgements + self.held_acknowledgements + promised
    }

    /// Returns the number of bytes, including those held back.
    pub fn bytes(&self) -> usize {
        self.ready.len() + self.held_bytes
    }

    /// Returns the number of bytes that may be sent now.
    pub fn ready_bytes(&self) -> usize {
        self.ready.len()
    }

    /// Releases the packets that wait for writes up to `durable`, which are durable now.
    pub fn release(&mut self, durable: u64) {
        while let Some(stage) = self.held.front()
            && stage.commit_index <= durable
            && let Some(stage) = self.held.pop_front()
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
                self.spare_buffer = packets;
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
        self.held.clear();
        self.first_reserved += self.reserved_acks.len() as u64;
        self.reserved_acks.clear();
        self.held_bytes = 0;
        self.held_acknowledgements = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(output: &mut Output, commit_index: u64, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.append(commit_index, write).unwrap();
    }

    fn acknowledge(output: &mut Output, commit_index: u64, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.acknowledge(commit_index, None, write).unwrap();
    }

    fn acknowledge_slot(output: &mut Output, commit_index: u64, slot: AckSlot, bytes: &[u8]) {
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(bytes);
            Ok::<_, ()>(())
        };
        output.acknowledge(commit_index, Some(slot), write).unwrap();
    }

    fn take_all(output: &mut Output) -> Vec<u8> {
        let mut to = BytesMut::new();
        output.take(&mut to);
        to.to_vec()
    }

    #[test]
    fn packets_for_an_earlier_commit_are_sent_first() {
        let mut output = Output::default();
        put(&mut output, 0, b"a");
        put(&mut output, 3, b"d");
        put(&mut output, 5, b"g");
        put(&mut output, 0, b"b");
        put(&mut output, 3, b"e");
        put(&mut output, 2, b"c");
        put(&mut output, 4, b"f");
        assert_eq!((output.bytes(), output.ready_bytes()), (7, 2));
        assert_eq!(take_all(&mut output), b"ab");
        assert_eq!(take_all(&mut output), b"");
        output.release(3);
        assert_eq!(output.bytes(), 5);
        put(&mut output, 0, b"!");
        assert_eq!(take_all(&mut output), b"cde!");
        output.release(9);
        assert_eq!(take_all(&mut output), b"fg");
        assert_eq!(output.bytes(), 0);
    }

    #[test]
    fn acknowledgements_keep_their_order_and_are_counted_until_sent() {
        let mut output = Output::default();
        acknowledge(&mut output, 0, b"1");
        acknowledge(&mut output, 3, b"2");
        put(&mut output, 0, b"x");
        acknowledge(&mut output, 0, b"3");
        acknowledge(&mut output, 2, b"4");
        acknowledge(&mut output, 4, b"5");
        assert_eq!(output.acknowledgements(), 5);
        assert_eq!(take_all(&mut output), b"1x");
        assert_eq!(output.acknowledgements(), 4);
        output.release(2);
        assert_eq!(take_all(&mut output), b"");
        output.release(3);
        assert_eq!(output.acknowledgements(), 4);
        assert_eq!(take_all(&mut output), b"234");
        assert_eq!(output.acknowledgements(), 1);
        output.release(4);
        acknowledge(&mut output, 0, b"6");
        assert_eq!(take_all(&mut output), b"56");
        assert_eq!(output.acknowledgements(), 0);
    }

    #[test]
    fn acknowledgements_wait_for_an_earlier_reserved_slot() {
        let mut output = Output::default();
        let first = output.reserve_ack();
        acknowledge(&mut output, 0, b"2");
        let third = output.reserve_ack();
        acknowledge(&mut output, 3, b"4");
        put(&mut output, 0, b"x");
        assert_eq!((output.bytes(), output.acknowledgements()), (3, 4));
        assert!(!output.is_sent_with(0, Some(third)) && output.is_sent_with(0, Some(first)));
        acknowledge_slot(&mut output, 0, third, b"3");
        assert_eq!(take_all(&mut output), b"x");
        acknowledge_slot(&mut output, 2, first, b"1");
        assert_eq!((output.bytes(), output.acknowledgements()), (4, 4));
        acknowledge(&mut output, 0, b"5");
        assert_eq!(take_all(&mut output), b"");
        output.release(2);
        assert_eq!(take_all(&mut output), b"123");
        output.release(3);
        assert_eq!(take_all(&mut output), b"45");
        assert_eq!((output.bytes(), output.acknowledgements()), (0, 0));
        acknowledge(&mut output, 0, b"6");
        assert_eq!(take_all(&mut output), b"6");
    }

    #[test]
    fn a_cleared_slot_sends_no_acknowledgement() {
        let mut output = Output::default();
        let dropped = output.reserve_ack();
        acknowledge(&mut output, 0, b"1");
        output.drop_held();
        let next = output.reserve_ack();
        acknowledge_slot(&mut output, 0, dropped, b"!");
        assert_eq!((output.bytes(), output.acknowledgements()), (0, 1));
        acknowledge_slot(&mut output, 0, next, b"2");
        assert_eq!(take_all(&mut output), b"2");
    }

    #[test]
    fn each_awaited_commit_is_announced_once() {
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
    fn a_failed_append_changes_nothing() {
        let mut output = Output::default();
        for commit_index in [0, 1] {
            put(&mut output, commit_index, b"a");
            let failing = |out: &mut BytesMut| {
                out.extend_from_slice(b"half");
                Err(())
            };
            output.append::<(), _>(commit_index, failing).unwrap_err();
            output.acknowledge(commit_index, None, failing).unwrap_err();
        }
        assert_eq!((output.bytes(), output.acknowledgements()), (2, 0));
        output.release(1);
        assert_eq!(take_all(&mut output), b"aa");
    }

    #[test]
    fn held_output_can_be_dropped() {
        let mut output = Output::default();
        put(&mut output, 0, b"ab");
        acknowledge(&mut output, 1, b"cd");
        output.drop_held();
        put(&mut output, 0, b"!");
        assert_eq!((output.bytes(), output.acknowledgements()), (3, 0));
        assert_eq!(take_all(&mut output), b"ab!");
    }

    #[test]
    fn output_is_appended_to_unsent_bytes() {
        let mut output = Output::default();
        put(&mut output, 0, b"b");
        let mut to = BytesMut::from(&b"a"[..]);
        output.take(&mut to);
        assert_eq!(&to[..], b"ab");
    }
}
