//! Checks of short sequences of calls, on a key that no other call uses.
use crate::handles::{handles, kind};
use crate::header::{
    sst_compare_and_set, sst_del, sst_entry_free, sst_entry_value, sst_entry_version, sst_get,
    sst_guard_del, sst_guard_free, sst_guard_set, sst_hlc_compare, sst_hlc_free, sst_keys_at,
    sst_keys_free, sst_keys_len, sst_lock, sst_lock_options, sst_observation_free,
    sst_observation_value, sst_observe, sst_observer_free, sst_observer_next, sst_scan_free,
    sst_scan_new, sst_scan_next_page, sst_set, sst_slice, sst_transact, sst_transaction_del,
    sst_transaction_free, sst_transaction_new, sst_transaction_outcome_free,
    sst_transaction_outcome_is_applied, sst_transaction_outcome_len, sst_transaction_set, sst_vdel,
};
use crate::input::FuzzInput;
use crate::outcome::{is_known, read};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const OK: u32 = 0;
const TOKEN_REQUIRED: u32 = 101;

/// Returns whether a call succeeded. Every call can fail: the client can be closed or interrupted, or have low limits.
fn succeeded(status: u32) -> Option<()> {
    assert!(is_known(status), "{status}");
    (status == OK).then_some(())
}

struct CheckedKey {
    client: *mut c_void,
    name: Vec<u8>,
}

/// Makes one of the checks, if there is a client.
pub(crate) fn check(which: usize, mut choices: FuzzInput<'_>) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(client) = handles().of_kind(kind("client")).next() else {
        return;
    };
    let key = CheckedKey {
        client: std::ptr::without_provenance_mut(client),
        name: format!("kept/{}", NEXT.fetch_add(1, Relaxed)).into_bytes(),
    };
    let value = choices.piece().0;
    let checks = [
        CheckedKey::check_set_get_del,
        CheckedKey::check_compare_and_set,
        CheckedKey::check_transact,
        CheckedKey::check_guard,
        CheckedKey::check_observe,
        CheckedKey::check_scan,
    ];
    // SAFETY: handles are numbers, and all places are here.
    let _ = unsafe { checks[which % checks.len()](&key, value) };
}

impl CheckedKey {
    fn parts(&self) -> (*mut c_void, usize) {
        (address(&self.name), self.name.len())
    }

    unsafe fn set(&self, value: &[u8], version: &mut *mut c_void) -> u32 {
        let (key, len) = self.parts();
        let version = (&raw mut *version).cast();
        let place = (address(value), value.len());
        unsafe {
            sst_set(
                self.client,
                key,
                len,
                place.0,
                place.1,
                null_mut(),
                null_mut(),
                version,
                null_mut(),
            )
        }
    }

    /// Returns the value and version of the key; the inner option is `None` if the key is absent.
    unsafe fn get(&self) -> Option<Option<(Vec<u8>, *mut c_void)>> {
        let (key, len) = self.parts();
        let (mut entry, mut version) = (null_mut(), null_mut());
        unsafe {
            succeeded(sst_get(
                self.client,
                key,
                len,
                null_mut(),
                out_pointer(&mut entry),
                null_mut(),
            ))?;
            if entry.is_null() {
                return Some(None);
            }
            assert_eq!(
                sst_entry_version(entry, out_pointer(&mut version), null_mut()),
                OK
            );
            let value = read(sst_entry_value(entry));
            sst_entry_free(entry);
            Some(Some((value, version)))
        }
    }

    unsafe fn expect_value(&self, value: &[u8], version: *mut c_void) -> Option<()> {
        unsafe {
            let found = self.get();
            if let Some(found) = found {
                let (found, found_version) = found.expect("it was stored");
                assert_eq!(found, value);
                let mut order = 9_i32;
                let status =
                    sst_hlc_compare(version, found_version, (&raw mut order).cast(), null_mut());
                assert_eq!((status, order), (OK, 0));
                sst_hlc_free(found_version);
            }
            sst_hlc_free(version);
        }
        Some(())
    }

    unsafe fn check_set_get_del(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let (mut version, mut result) = (null_mut(), 9_u32);
        let other = [value, b"!"].concat();
        let result_place = (&raw mut result).cast();
        unsafe {
            succeeded(self.set(value, &mut version))?;
            self.expect_value(value, version)?;
            let other = (address(&other), other.len());
            succeeded(sst_vdel(
                self.client,
                key,
                len,
                other.0,
                other.1,
                null_mut(),
                result_place,
                null_mut(),
                null_mut(),
            ))?;
            assert_eq!(result, 3, "it holds another value");
            succeeded(sst_del(
                self.client,
                key,
                len,
                null_mut(),
                result_place,
                null_mut(),
                null_mut(),
            ))?;
            assert_eq!(result, 1, "it was there");
            assert_eq!(self.get()?, None);
            succeeded(sst_del(
                self.client,
                key,
                len,
                null_mut(),
                result_place,
                null_mut(),
                null_mut(),
            ))?;
            assert_eq!(result, 2, "it is absent");
        }
        Some(())
    }

    unsafe fn check_compare_and_set(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let (mut version, mut result) = (null_mut(), 9_u32);
        let mut put = |expected: *const sst_slice| unsafe {
            let version = out_pointer(&mut version);
            let result = (&raw mut result).cast();
            let status = sst_compare_and_set(
                self.client,
                key,
                len,
                expected.cast_mut().cast(),
                address(value),
                value.len(),
                null_mut(),
                result,
                version,
                null_mut(),
            );
            succeeded(status)
        };
        put(null())?;
        assert_eq!(result, 1, "it was absent");
        unsafe { self.expect_value(value, version)? };
        let mut put_again = || unsafe {
            let result = (&raw mut result).cast();
            let wrong = sst_slice {
                data: address(b"\x01?"),
                len: 2,
            };
            succeeded(sst_compare_and_set(
                self.client,
                key,
                len,
                (&raw const wrong).cast_mut().cast(),
                address(value),
                value.len(),
                null_mut(),
                result,
                null_mut(),
                null_mut(),
            ))
        };
        put_again()?;
        if value != b"\x01?" {
            assert_eq!(result, 2, "it holds another value");
        }
        Some(())
    }

    unsafe fn check_transact(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let (mut sale, mut outcome) = (null_mut(), null_mut());
        let (data, value_len) = (address(value), value.len());
        unsafe {
            assert_eq!(sst_transaction_new(out_pointer(&mut sale), null_mut()), OK);
            assert_eq!(
                sst_transaction_set(sale, key, len, address(b"1"), 1, null_mut(), null_mut()),
                OK
            );
            assert_eq!(
                sst_transaction_del(sale, key, len, null_mut(), null_mut()),
                OK
            );
            assert_eq!(
                sst_transaction_set(sale, key, len, data, value_len, null_mut(), null_mut()),
                OK
            );
            let status = sst_transact(
                self.client,
                sale,
                null_mut(),
                out_pointer(&mut outcome),
                null_mut(),
            );
            sst_transaction_free(sale);
            succeeded(status)?;
            assert!(sst_transaction_outcome_is_applied(outcome));
            assert_eq!(sst_transaction_outcome_len(outcome), 3);
            sst_transaction_outcome_free(outcome);
            let (found, version) = self.get()?.expect("it was stored");
            sst_hlc_free(version);
            assert_eq!(found, value);
        }
        Some(())
    }

    unsafe fn check_guard(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let name = [&self.name[..], b"/lock"].concat();
        let options = sst_lock_options {
            size: size_of::<sst_lock_options>(),
            lease: null_mut(),
            wait_ms: 1_000,
            once: 0,
            reserved: 0,
        };
        let options = (&raw const options).cast_mut().cast();
        let (mut guard, mut version, mut result) = (null_mut(), null_mut(), 9_u32);
        let (data, value_len) = (address(value), value.len());
        unsafe {
            succeeded(sst_lock(
                self.client,
                address(&name),
                name.len(),
                options,
                out_pointer(&mut guard),
                null_mut(),
            ))?;
            let status = sst_guard_set(
                guard,
                key,
                len,
                data,
                value_len,
                null_mut(),
                null_mut(),
                out_pointer(&mut version),
                null_mut(),
            );
            let mut is_held = || {
                succeeded(status)?;
                self.expect_value(value, version)?;
                let status = self.set(value, &mut null_mut());
                assert!(
                    status == TOKEN_REQUIRED || succeeded(status).is_none(),
                    "without a token"
                );
                let result_place = (&raw mut result).cast();
                succeeded(sst_guard_del(
                    guard,
                    key,
                    len,
                    null_mut(),
                    result_place,
                    null_mut(),
                    null_mut(),
                ))?;
                assert_eq!(result, 1, "it was there");
                Some(())
            };
            let held = is_held();
            sst_guard_free(guard);
            held
        }
    }

    unsafe fn check_observe(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let (mut observer, mut observation) = (null_mut(), null_mut());
        unsafe {
            succeeded(sst_observe(
                self.client,
                key,
                len,
                null_mut(),
                out_pointer(&mut observer),
                null_mut(),
            ))?;
            let mut is_told = || {
                succeeded(self.set(value, &mut null_mut()))?;
                succeeded(sst_observer_next(
                    observer,
                    1_000,
                    out_pointer(&mut observation),
                    null_mut(),
                ))?;
                assert_eq!(read(sst_observation_value(observation)), value);
                sst_observation_free(observation);
                Some(())
            };
            let told = is_told();
            sst_observer_free(observer);
            told
        }
    }

    unsafe fn check_scan(&self, value: &[u8]) -> Option<()> {
        let (key, len) = self.parts();
        let (mut version, mut scan, mut keys) = (null_mut(), null_mut(), null_mut());
        unsafe {
            succeeded(self.set(value, &mut version))?;
            sst_hlc_free(version);
            succeeded(sst_scan_new(
                self.client,
                key,
                len,
                null_mut(),
                out_pointer(&mut scan),
                null_mut(),
            ))?;
            let status = sst_scan_next_page(scan, out_pointer(&mut keys), null_mut());
            sst_scan_free(scan);
            succeeded(status)?;
            assert_eq!(sst_keys_len(keys), 1);
            assert_eq!(read(sst_keys_at(keys, 0)), self.name);
            assert!(read(sst_keys_at(keys, 1)).is_empty());
            sst_keys_free(keys);
        }
        Some(())
    }
}

fn address(bytes: &[u8]) -> *mut c_void {
    bytes.as_ptr().cast_mut().cast()
}

fn out_pointer(handle: &mut *mut c_void) -> *mut c_void {
    (&raw mut *handle).cast()
}
