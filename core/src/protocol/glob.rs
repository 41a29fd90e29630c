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
//! stands for itself. Patterns and keys are bytes, not characters. The empty pattern matches only the empty key, which
//! no store holds.

/// A compiled pattern.
///
/// ```
/// use statestore::protocol::glob::Glob;
///
/// let glob = Glob::new(b"line-[0-9]/*");
/// assert!(glob.matches(b"line-7/speed"));
/// assert!(!glob.matches(b"line-x/speed"));
/// assert_eq!(glob.literal_prefix(), b"line-");
/// ```
#[derive(Debug, Clone)]
pub struct Glob {
    tokens: Vec<Token>,
    prefix: Vec<u8>,
    min_len: usize,
}

#[derive(Debug, Clone)]
enum Token {
    /// This byte.
    Byte(u8),
    /// Any byte.
    One,
    /// Any number of bytes.
    Many,
    /// A byte of this set.
    Class(Box<ByteSet>),
}

impl Token {
    fn matches(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::One => true,
            Self::Many => false,
            Self::Class(set) => set.contains(byte),
        }
    }
}

impl Glob {
    /// Compiles a pattern. Every byte string is one: an unclosed `[` stands for itself.
    pub fn new(pattern: &[u8]) -> Self {
        let mut tokens = Vec::new();
        let mut rest = pattern;
        // Once a `[` found no `]`, none of those behind it does; looking again would take quadratic time.
        let mut may_close = true;
        while let Some((&first, behind)) = rest.split_first() {
            rest = behind;
            match first {
                b'*' if matches!(tokens.last(), Some(Token::Many)) => {}
                b'*' => tokens.push(Token::Many),
                b'?' => tokens.push(Token::One),
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
        let literal = |token: &Token| match token {
            Token::Byte(byte) => Some(*byte),
            _ => None,
        };
        Self {
            prefix: tokens.iter().map_while(literal).collect(),
            min_len: tokens
                .iter()
                .filter(|token| !matches!(token, Token::Many))
                .count(),
            tokens,
        }
    }

    /// Whether the whole key matches.
    ///
    /// Takes time of at most the product of both lengths, never exponential: only the last `*` is ever retried.
    pub fn matches(&self, key: &[u8]) -> bool {
        if key.len() < self.min_len || !key.starts_with(&self.prefix) {
            return false;
        }
        let (mut token, mut byte) = (self.prefix.len(), self.prefix.len());
        // Behind the last `*`: the token to go on with, and the byte up to which that `*` reaches.
        let mut retry = None;
        loop {
            match self.tokens.get(token) {
                Some(Token::Many) => {
                    token += 1;
                    if token == self.tokens.len() {
                        return true;
                    }
                    retry = Some((token, byte));
                    continue;
                }
                Some(own) if key.get(byte).is_some_and(|&byte| own.matches(byte)) => {
                    token += 1;
                    byte += 1;
                    continue;
                }
                None if byte == key.len() => return true,
                _ => {}
            }
            match &mut retry {
                Some((after, reach)) if *reach < key.len() => {
                    *reach += 1;
                    (token, byte) = (*after, *reach);
                }
                _ => return false,
            }
        }
    }

    /// The bytes that every match begins with. A store may look only at keys with this prefix.
    pub fn literal_prefix(&self) -> &[u8] {
        &self.prefix
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
            (*first..=*last).for_each(|byte| set.insert(byte));
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

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }

    fn invert(&mut self) {
        self.0.iter_mut().for_each(|bits| *bits = !*bits);
    }
}
