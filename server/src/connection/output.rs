//! The bytes that wait to be sent on one connection.
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

/// Encoded packets on their way out.
///
/// A packet that tells of a write which is not durable yet waits until it is. Others do not wait for it: they leave
/// before it. MQTT 5 wants a few things in order all the same, and they are: PUBACKs are in the order of their PUBLISHes
/// [MQTT-4.6.0-2], since a PUBACK waits for what the one before it waits for; and messages of one client to one topic
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
    has_unannounced: bool,
    /// An empty buffer of a former stage.
    spare: BytesMut,
}

impl Output {
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

    /// Appends a PUBACK, which leaves once the write `hold` is durable, and not before those that were appended before it.
    pub(crate) fn acknowledge<E>(
        &mut self,
        hold: u64,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let hold = self.acknowledgement_hold(hold);
        self.append(hold, write)?;
        self.count_acknowledgement(hold);
        Ok(())
    }

    /// What a PUBACK waits for that would not leave before the write `hold` is durable.
    pub(crate) fn acknowledgement_hold(&self, hold: u64) -> u64 {
        match self.stages.front() {
            Some(first) if first.sequence <= self.last_acknowledgement => {
                hold.max(self.last_acknowledgement)
            }
            _ => hold,
        }
    }

    /// Counts a PUBACK that was just [appended](Self::append) with its [hold](Self::acknowledgement_hold).
    pub(crate) fn count_acknowledgement(&mut self, hold: u64) {
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
        self.ready_acknowledgements + self.held_acknowledgements
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
        self.ready_acknowledgements = 0;
        if to.is_empty() {
            if to.capacity() > MAX_SPARE_BYTES {
                *to = BytesMut::new();
            }
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
        output.acknowledge(hold, write).unwrap();
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
            output.acknowledge(hold, failing).unwrap_err();
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
