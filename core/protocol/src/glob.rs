//! Patterns of SCAN: `* ? [ab] [0-9] [!x] [*]`; `^` does not negate.
//!
//! | in a pattern | matches |
//! |---|---|
//! | `*` | any number of bytes, none included |
//! | `?` | any one byte |
//! | `[ab0-9]` | one of these bytes; a range includes both ends, and a reversed one holds nothing |
//! | `[!ab]` | one byte that is none of these |
//! | `[*]` `[?]` `[[]` | the byte itself, as in any class |
//! | anything else | itself, `\` and `^` included |
//!
//! A `]` right behind `[` or `[!` belongs to the class; a `-` at either end of a class is itself. A `[` without a `]`
//! matches itself. Patterns and keys are bytes, not characters. The empty pattern matches only the empty key, which no
//! store holds.

/// Runs between two stars that are no longer than this are compared byte by byte at each place; longer ones at all
/// places at once.
const SHORT_RUN: usize = 32;

/// A compiled pattern.
///
/// ```
/// use statestore_protocol::glob::Glob;
///
/// let glob = Glob::new(b"line-[0-9]/*");
/// assert!(glob.matches(b"line-7/speed"));
/// assert!(!glob.matches(b"line-x/speed"));
/// assert_eq!(glob.literal_prefix(), b"line-");
/// ```
#[derive(Debug, Clone)]
pub struct Glob {
    /// Tokens before the first `*`; the whole pattern if there is none.
    head: Vec<Token>,
    /// Runs between two `*`, none of them empty.
    middle: Vec<TokenRun>,
    /// Tokens behind the last `*`; `None` if there is no `*`.
    tail: Option<Vec<Token>>,
    prefix: Vec<u8>,
    min_len: usize,
}

/// A pattern element that matches one byte of a key.
#[derive(Debug, Clone)]
enum Token {
    /// Exactly this byte.
    Byte(u8),
    /// Any byte.
    Any,
    /// A byte of this set.
    Class(Box<ByteSet>),
}

impl Token {
    fn matches(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::Any => true,
            Self::Class(set) => set.contains(byte),
        }
    }
}

impl Glob {
    /// Compiles a pattern. Every byte string is a valid pattern: an unclosed `[` matches itself.
    pub fn new(pattern: &[u8]) -> Self {
        let mut head = None;
        let mut middle = Vec::new();
        let mut tokens = Vec::new();
        let mut rest = pattern;
        // Once a `[` found no `]`, none of those behind it does; looking again would take quadratic time.
        let mut may_close = true;
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            match first {
                b'*' => {
                    let run = std::mem::take(&mut tokens);
                    if head.is_none() {
                        head = Some(run);
                    } else if !run.is_empty() {
                        middle.push(TokenRun::new(run));
                    }
                }
                b'?' => tokens.push(Token::Any),
                b'[' if may_close => {
                    if let Some((token, behind)) = class(behind) {
                        tokens.push(token);
                        rest = behind;
                    } else {
                        may_close = false;
                        tokens.push(Token::Byte(b'['));
                    }
                }
                byte => tokens.push(Token::Byte(byte)),
            }
        }
        let (head, tail) = match head {
            Some(head) => (head, Some(tokens)),
            None => (tokens, None),
        };
        let literal = |token: &Token| match token {
            Token::Byte(byte) => Some(*byte),
            _ => None,
        };
        Self {
            prefix: head.iter().map_while(literal).collect(),
            min_len: head.len()
                + middle
                    .iter()
                    .map(|run: &TokenRun| run.tokens.len())
                    .sum::<usize>()
                + tail.as_ref().map_or(0, Vec::len),
            head,
            middle,
            tail,
        }
    }

    /// Returns whether the whole key matches.
    ///
    /// A key is looked through once, whatever the pattern: it takes at most 32 steps per byte of the key, or one
    /// for each 64 bytes of the longest run between two `*`.
    pub fn matches(&self, key: &[u8]) -> bool {
        self.matches_counted(key, &mut 0)
    }

    /// Matches like [`matches`](Self::matches), and adds the cost to `steps`, roughly in nanoseconds.
    pub fn matches_counted(&self, key: &[u8], steps: &mut usize) -> bool {
        *steps += 1;
        // Every match begins with the prefix.
        let compared = self.prefix.len();
        if key.len() < self.min_len || (compared > 0 && !key.starts_with(&self.prefix)) {
            return false;
        }
        *steps += self.head.len() - compared;
        let (head, rest) = key.split_at(self.head.len());
        if !all_match(&self.head[compared..], &head[compared..]) {
            return false;
        }
        let Some(tail) = &self.tail else {
            return rest.is_empty();
        };
        *steps += tail.len();
        let (mut rest, end) = rest.split_at(rest.len() - tail.len());
        if !all_match(tail, end) {
            return false;
        }
        // The first match of each run leaves the most bytes to the runs behind it.
        for run in &self.middle {
            match run.find(rest, steps) {
                Some(end) => rest = &rest[end..],
                None => return false,
            }
        }
        true
    }

    /// Removes the first `bytes` bytes of the [literal prefix](Self::literal_prefix), at most all of it. The result
    /// matches the rest of keys whose first bytes the caller has compared already.
    #[must_use]
    pub fn without_prefix(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.prefix.len());
        self.prefix.drain(..bytes);
        self.prefix.shrink_to_fit();
        self.head.drain(..bytes);
        self.head.shrink_to_fit();
        self.min_len -= bytes;
        self
    }

    /// Returns the bytes that every match begins with. A store may look only at keys with this prefix.
    pub fn literal_prefix(&self) -> &[u8] {
        &self.prefix
    }
}

/// Reports whether each byte matches the token at its position. Both slices have the same length.
#[inline]
fn all_match(tokens: &[Token], bytes: &[u8]) -> bool {
    let mut bytes = bytes.iter();
    tokens
        .iter()
        .all(|token| bytes.next().is_some_and(|&byte| token.matches(byte)))
}

/// Tokens between two `*`, which may match at any position.
#[derive(Debug, Clone)]
struct TokenRun {
    tokens: Vec<Token>,
    positions: Option<PositionSets>,
}

impl TokenRun {
    fn new(tokens: Vec<Token>) -> Self {
        let places = (tokens.len() > SHORT_RUN).then(|| PositionSets::new(&tokens));
        Self {
            tokens,
            positions: places,
        }
    }

    /// Returns the end of the first match in `text`.
    fn find(&self, text: &[u8], steps: &mut usize) -> Option<usize> {
        if let Some(places) = &self.positions {
            return places.find(text, steps);
        }
        let len = self.tokens.len();
        text.windows(len).enumerate().find_map(|(start, window)| {
            let same = self
                .tokens
                .iter()
                .zip(window)
                .take_while(|&(token, &byte)| token.matches(byte))
                .count();
            *steps += 1 + same;
            (same == len).then_some(start + len)
        })
    }
}

/// A long run as sets of positions: for each byte, one bit for each position of the run that it matches. The algorithm is
/// Shift-And of Baeza-Yates and Gonnet.
#[derive(Debug, Clone)]
struct PositionSets {
    len: usize,
    /// Words of a set.
    width: usize,
    /// 256 sets.
    by_byte: Vec<u64>,
}

impl PositionSets {
    fn new(tokens: &[Token]) -> Self {
        let width = tokens.len().div_ceil(64);
        let mut of_any = vec![0; width];
        for (place, token) in tokens.iter().enumerate() {
            if let Token::Any = token {
                of_any[place / 64] |= 1 << (place % 64);
            }
        }
        let mut of_byte = of_any.repeat(256);
        for (place, token) in tokens.iter().enumerate() {
            let mut set = |byte: u8| {
                of_byte[usize::from(byte) * width + place / 64] |= 1 << (place % 64);
            };
            match token {
                Token::Any => {}
                Token::Byte(byte) => set(*byte),
                Token::Class(class) => (0..=255).filter(|&byte| class.contains(byte)).for_each(set),
            }
        }
        Self {
            len: tokens.len(),
            width,
            by_byte: of_byte,
        }
    }

    /// Returns the end of the first match in `text`.
    fn find(&self, text: &[u8], steps: &mut usize) -> Option<usize> {
        if text.len() < self.len {
            return None;
        }
        // The places up to which the run has matched, ending at the byte before.
        let mut reached: Vec<u64> = vec![0; self.width];
        let last = self.len - 1;
        for (index, &byte) in text.iter().enumerate() {
            *steps += self.width;
            let places = &self.by_byte[usize::from(byte) * self.width..][..self.width];
            let mut carry = 1;
            for (word, places) in reached.iter_mut().zip(places) {
                let next = (*word << 1 | carry) & places;
                carry = *word >> 63;
                *word = next;
            }
            if reached[last / 64] >> (last % 64) & 1 == 1 {
                return Some(index + 1);
            }
        }
        None
    }
}

/// Reads a class behind its `[`; `None` if it is not closed.
fn class(text: &[u8]) -> Option<(Token, &[u8])> {
    let (negated, body) = match text.strip_prefix(b"!") {
        Some(body) => (true, body),
        None => (false, text),
    };
    // The first byte belongs to the class, even a `]`.
    let end = 1 + body.get(1..)?.iter().position(|&byte| byte == b']')?;
    let (members, rest) = (&body[..end], &body[end + 1..]);
    if let ([byte], false) = (members, negated) {
        return Some((Token::Byte(*byte), rest));
    }
    let mut set = ByteSet::default();
    let mut members = members;
    while let [first, others @ ..] = members {
        members = others;
        if let [b'-', last, others @ ..] = members {
            set.insert_range(*first, *last);
            members = others;
        } else {
            set.insert(*first);
        }
    }
    if negated {
        set.invert();
    }
    Some((Token::Class(Box::new(set)), rest))
}

/// A set of bytes, one bit each.
#[derive(Debug, Clone, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    /// Inserts a range with both ends; a reversed range holds nothing.
    fn insert_range(&mut self, first: u8, last: u8) {
        for (bits, base) in self.0.iter_mut().zip([0, 64, 128, 192]) {
            let from = first.max(base);
            let to = last.min(base + 63);
            if from <= to {
                *bits |= u64::MAX >> (63 - (to - from)) << (from - base);
            }
        }
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }

    fn invert(&mut self) {
        self.0.iter_mut().for_each(|bits| *bits = !*bits);
    }
}
