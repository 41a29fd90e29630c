//! Scans.
use crate::operation_table::{BeginResult, OperationTable};
use crate::reply::Reply;
use napi_derive::napi;
use statestore_embed::{EntryScan, Scan};
use std::rc::Rc;

/// The keys that match a pattern, or their entries, page by page.
#[napi]
pub struct NativeScan {
    operations: Rc<OperationTable>,
    scan: TypedScan,
}

/// A scan for keys or for entries.
pub(crate) enum TypedScan {
    Keys(Scan),
    Entries(EntryScan),
}

impl NativeScan {
    pub(crate) fn new(operations: Rc<OperationTable>, scan: TypedScan) -> Self {
        Self { operations, scan }
    }
}

#[napi]
impl NativeScan {
    /// Begins to fetch the next page.
    #[napi]
    pub fn next_page(&self) -> BeginResult {
        match &self.scan {
            TypedScan::Keys(scan) => {
                self.operations
                    .submit("scanning", scan.next_page(), Reply::Page)
            }
            TypedScan::Entries(scan) => {
                self.operations
                    .submit("scanning", scan.next_page(), Reply::EntryPage)
            }
        }
    }
}
