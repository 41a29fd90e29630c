//! Arguments that are no handles: bytes, texts, numbers, times and structs of options.
use crate::call::Call;
use crate::header::{sst_pair, sst_slice};
use crate::server;
use std::any::type_name;
use std::ffi::c_void;
use std::ptr;

/// A struct that begins with its size.
pub(crate) trait SizedStruct: Copy {
    fn choose(call: &mut Call<'_>) -> Self;
}

const NO_TIME: u64 = 1 << 63;

impl Call<'_> {
    fn keep(&mut self, bytes: &[u8]) -> *mut c_void {
        self.bytes.push(bytes.into());
        let kept = self.bytes.last_mut().expect("it was pushed");
        kept.as_mut_ptr().cast()
    }

    pub(crate) fn bytes(&mut self, name: &str) -> (*mut c_void, usize) {
        let how = self.choices.byte();
        let of_input = |name: &str| format!("{}/{name}", server::input()).into_bytes();
        let known = match name {
            "pattern" => [
                of_input("*"),
                b"*".to_vec(),
                of_input("[a-b]?"),
                b"\\".to_vec(),
            ],
            "text" => [&b"1696374425000:1:a"[..], b"9999999999999:0:b", b"1:2", b""].map(Vec::from),
            "password" | "holder" => [&b""[..], b"me", b"you", b"\xff"].map(Vec::from),
            name if name.ends_with("_pem") => {
                let begin = &b"-----BEGIN CERTIFICATE-----\n"[..];
                [&b""[..], begin, b"MIIB", b"\xff"].map(Vec::from)
            }
            _ => ["a", "b", "c", "a/leader"].map(of_input),
        };
        match how % 32 {
            0 if ["password", "holder"].contains(&name) => (ptr::null_mut(), 0),
            // Most connections have none.
            0..=20 if name.ends_with("_pem") => (ptr::null_mut(), 0),
            24 => (ptr::null_mut(), 0),
            25 => (ptr::null_mut(), 5),
            26 => (self.keep(b"x"), usize::MAX),
            27 => (self.keep(b""), 0),
            28 => (self.keep(&[b'x'; 65_536]), 65_536),
            29 => (self.keep(&[b'x'; 65_535]), 65_535),
            other if other > 29 => {
                let bytes = self.choices.piece().0;
                (self.keep(bytes), bytes.len())
            }
            other => {
                let bytes = &known[other % 4];
                (self.keep(bytes), bytes.len())
            }
        }
    }

    fn one_slice(&mut self) -> sst_slice {
        let (data, len) = self.bytes("key");
        sst_slice { data, len }
    }

    pub(crate) fn slice(&mut self) -> *mut c_void {
        if self.choices.byte().is_multiple_of(4) {
            return ptr::null_mut();
        }
        let slice = self.one_slice();
        self.keep_all(&[slice])
    }

    fn keep_all<T: Copy>(&mut self, all: &[T]) -> *mut c_void {
        let mut words = vec![0_u64; size_of_val(all).div_ceil(8)].into_boxed_slice();
        let place: *mut c_void = words.as_mut_ptr().cast();
        // SAFETY: there are as many words as they need, of the alignment of words.
        unsafe { ptr::copy_nonoverlapping(all.as_ptr(), place.cast(), all.len()) };
        self.words.push(words);
        place
    }

    fn several<T: Copy>(&mut self, one: impl Fn(&mut Self) -> T) -> (*mut c_void, usize) {
        match self.choices.byte() % 16 {
            13 => (ptr::null_mut(), 0),
            14 => (ptr::null_mut(), 1),
            15 => {
                let one = one(self);
                (self.keep_all(&[one]), usize::MAX / 2)
            }
            count => {
                let all: Vec<T> = (0..=count % 4).map(|_| one(self)).collect();
                (self.keep_all(&all), all.len())
            }
        }
    }

    pub(crate) fn slices(&mut self, _name: &str) -> (*mut c_void, usize) {
        self.several(Self::one_slice)
    }

    pub(crate) fn pairs(&mut self, _name: &str) -> (*mut c_void, usize) {
        self.several(|call| sst_pair {
            key: call.one_slice(),
            value: call.one_slice(),
        })
    }

    pub(crate) fn text(&mut self, name: &str) -> *mut c_void {
        let how = self.choices.byte() % 16;
        let mut piece = || {
            let bytes = self.choices.piece().0.iter();
            // No name of another machine, and no file that could be endless.
            let harmless = bytes.filter(|byte| !b"\0:/".contains(byte));
            harmless.copied().collect::<Vec<u8>>()
        };
        let text = match (name, how) {
            ("url", 0..=7) => server::url_with("mqtt"),
            ("url", 8) => b"mqtt://127.0.0.1:1".to_vec(),
            ("url", 9) => server::faulty_url(),
            ("url", 10) => server::url_with("mqtts"),
            ("url", 11) => server::url_with("ws"),
            ("url", 12) => b"unix:///nowhere/at/all".to_vec(),
            ("url", 13) => return ptr::null_mut(),
            ("url", 14) => [server::url_with("mqtt"), b"?".to_vec(), piece()].concat(),
            (_, 0..=7) => return ptr::null_mut(),
            ("client_id" | "user_name" | "server_name", 8) => piece(),
            (_, 9) => b"\xff\xfe".to_vec(),
            (_, 10) => Vec::new(),
            ("client_id", _) => b"a".to_vec(),
            ("user_name" | "server_name", _) => b"localhost".to_vec(),
            ("url", _) => piece(),
            _ => b"/nowhere/at/all".to_vec(),
        };
        self.keep(&[text, vec![0]].concat())
    }

    /// A call that waits for a lock with these options has nobody who could end it.
    fn waits_for_lock(&self) -> bool {
        ["sst_lock", "sst_election_new"].contains(&self.name)
    }

    pub(crate) fn milliseconds(&mut self, name: &str) -> u64 {
        let all: &[u64] = match name {
            "connect_timeout_ms" => &[0, 30, 5, 1, NO_TIME],
            "connect_limit_ms" => &[0, 1, 5, NO_TIME],
            "wait_ms" if self.waits_for_lock() => &[5, 1, 20, NO_TIME],
            "duration_ms" => &[0, 100, 200, 99, 1000, NO_TIME],
            _ => &[
                0,
                1,
                5,
                100,
                150,
                1_000,
                60_000,
                u64::MAX,
                NO_TIME,
                u64::MAX - 1,
                86_400_001,
            ],
        };
        self.choices.of(all)
    }

    /// A time to wait for what may never happen.
    pub(crate) fn timeout(&mut self) -> u64 {
        self.choices.of(&[0, 1, 5, 0, NO_TIME, u64::MAX - 1])
    }

    pub(crate) fn rarely(&mut self) -> u64 {
        u64::from(self.choices.byte() % 32 == 31)
    }

    pub(crate) fn number(&mut self, name: &str) -> u64 {
        let all: &[u64] = match name {
            "most" => &[u64::MAX, 1, 2, 0],
            "index" => &[0, 1, 2, u64::MAX],
            "level" => &[3, 5, 1, 2, 4, 0, 6, u64::MAX],
            "status" | "reason" => &[0, 1, 7, 10, 23, 199, 200, u64::MAX],
            // A lazy client that never connects makes each call wait for its time-out.
            "lazy" => &[0, 0, 2, 3],
            "max_in_flight" | "max_queued" | "keep" => &[0, 0, 1, 2, 100, 65_536],
            _ if name.ends_with("_bytes") => &[0, 0, 0, 1, 100, 4_096, u64::MAX],
            _ => &[0, 1, 2, 3, 0xffff_ffff],
        };
        self.choices.of(all)
    }

    /// The size that a struct says that it has, and how many words it is.
    fn size<T>(&mut self) -> (usize, usize) {
        let whole = size_of::<T>();
        let size = match self.choices.byte() {
            0..192 => whole,
            // A shorter one would wait for a lock without an end.
            _ if self.waits_for_lock() => whole,
            other => match other % 12 {
                0 => size_of::<usize>(),
                1 => 16,
                2 => whole - 8,
                3..5 => whole + 8,
                5 => 4_096,
                6 => 0,
                7 => 3,
                8 => whole - 1,
                9 => 4_104,
                10 => 1 << 20,
                _ => usize::MAX,
            },
        };
        let is_possible = (8..=4_096).contains(&size);
        (size, if is_possible { size.div_ceil(8) } else { 1 })
    }

    pub(crate) fn options<T: SizedStruct>(&mut self) -> *mut c_void {
        let is_lock = type_name::<T>().ends_with("sst_lock_options");
        if self.choices.byte() == 0 && !(is_lock && self.waits_for_lock()) {
            return ptr::null_mut();
        }
        let (size, words) = self.size::<T>();
        let given = T::choose(self);
        let mut kept = vec![0_u64; words.max(size_of::<T>().div_ceil(8))];
        // SAFETY: there are as many words as it needs.
        unsafe { kept.as_mut_ptr().cast::<T>().write_unaligned(given) };
        kept.truncate(words);
        kept[0] = size as u64;
        if words * 8 > size_of::<T>() && self.rarely() == 1 {
            kept[words - 1] = 1;
        }
        self.words.push(kept.into_boxed_slice());
        let kept = self.words.last_mut().expect("it was pushed");
        kept.as_mut_ptr().cast()
    }

    /// A struct that the library fills.
    pub(crate) fn filled<T: SizedStruct>(&mut self) -> *mut c_void {
        if self.choices.byte() >= 240 {
            return ptr::null_mut();
        }
        let (size, words) = self.size::<T>();
        let mut place = vec![u64::MAX; words].into_boxed_slice();
        place[0] = size as u64;
        self.out_struct(place, size_of::<T>())
    }
}
