//! Timestamps of any bytes: parsed and written again, and a clock that rises through all of them, unless the wall clock
//! goes far back.
#![no_main]
use libfuzzer_sys::fuzz_target;
use statestore_protocol::{Clock, Hlc, hlc::next_version};

fuzz_target!(|run: (u64, &[u8])| {
    let (mut now, lines) = run;
    let mut clock = Clock::new("clock").expect("a valid node id");
    let mut floor = clock.tick(now);
    for text in lines.split(|&byte| byte == b'\n') {
        let Ok(received) = Hlc::parse(text) else {
            continue;
        };
        let mut written = Vec::new();
        received.write_text(&mut written);
        assert_eq!(written.len(), received.text_len());
        assert_eq!(written, received.to_string().as_bytes());
        assert_eq!(Hlc::parse(&written).as_ref(), Ok(&received));

        let version = next_version(now, &received, None);
        let pair = (received.wall_ms(), received.counter());
        assert!(version > pair || pair == (u64::MAX, u64::MAX));

        // A clock that is too far ahead of the wall clock begins anew.
        if floor.check_skew(now).is_err() {
            floor = Hlc::new(0, 0, "clock").expect("a valid node id");
        }
        if clock.merge(&received, now).is_ok() {
            floor = floor.max(received);
        }
        let tick = clock.tick(now);
        assert!(tick > floor || tick.wall_ms() == u64::MAX);
        floor = tick;
        now = now.rotate_left(7);
    }
});
