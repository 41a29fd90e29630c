//! Counters: values that are decimal numbers.
use super::invalid;
use super::update::UpdateOptions;
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Error;
use crate::{AsBytes, Client, Entry};

impl Client {
    /// Adds `by` to the number that a key holds, and returns the new number. An absent key counts as 0. The key keeps its
    /// remaining time.
    ///
    /// The value is a decimal number in ASCII, as in Redis: digits, after `-` for a negative number, without blanks, `+` and
    /// leading zeros.
    ///
    /// The client [updates](Self::update) the key, so the limits and errors of [`update`](Self::update) apply. If the outcome
    /// of an error is unknown, the sum may have been stored.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    ///
    /// # Errors
    /// The errors of [`update`](Self::update), and [`ErrorKind::InvalidArgument`] if the value is no such number, or the sum
    /// does not fit into 64 bits. Then nothing was written.
    pub async fn incr(&self, key: impl AsBytes, by: i64) -> Result<i64, Error> {
        self.incr_with(key, by, &UpdateOptions::default()).await
    }

    /// Adds `by` to the number that a key holds, with options.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    pub async fn incr_with(
        &self,
        key: impl AsBytes,
        by: i64,
        options: &UpdateOptions,
    ) -> Result<i64, Error> {
        let key = key.as_ref();
        let mut sum = Ok(by);
        self.update_with(key, options, |old| {
            sum = add(old, by);
            sum.ok().map(|sum| sum.to_string())
        })
        .await?;
        sum.map_err(|reason| invalid("incrementing", key, reason))
    }
}

/// Adds to the number in the value of an entry.
fn add(old: Option<&Entry>, by: i64) -> Result<i64, &'static str> {
    let number = match old {
        Some(old) => parse(&old.value).ok_or("its value is not a decimal number of 64 bits")?,
        None => 0,
    };
    number
        .checked_add(by)
        .ok_or("the sum does not fit into 64 bits")
}

/// Parses a number in the only form in which it is written.
fn parse(value: &[u8]) -> Option<i64> {
    let text = str::from_utf8(value).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(value: &'static str, by: i64) -> Result<i64, &'static str> {
        let version = "1696374425000:1:StateStore".parse().unwrap();
        add(Some(&Entry::new(value, version)), by)
    }

    #[test]
    fn numbers_are_added_within_64_bits() {
        assert_eq!(add(None, -3), Ok(-3));
        assert_eq!(sum("0", 1), Ok(1));
        assert_eq!(sum("-7", 10), Ok(3));
        assert_eq!(sum("9223372036854775806", 1), Ok(i64::MAX));
        assert_eq!(sum("-9223372036854775808", 0), Ok(i64::MIN));
        assert!(sum("9223372036854775807", 1).is_err());
        assert!(sum("-9223372036854775808", -1).is_err());
        assert!(sum("1", i64::MAX).is_err());
    }

    #[test]
    fn a_value_in_another_form_is_no_number() {
        for value in [
            "",
            "-",
            "+1",
            "-0",
            "01",
            "-01",
            " 1",
            "1 ",
            "1\n",
            "1.0",
            "1e3",
            "0x1",
            "one",
            "9223372036854775808",
            "١",
        ] {
            assert!(sum(value, 1).is_err(), "{value:?}");
        }
    }
}
