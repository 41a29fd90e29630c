//! Scans.
use crate::operation_table::{BeginResult, OperationTable};
use crate::reply::Reply;
use napi_derive::napi;
use statestore_embed::Scan;
use std::rc::Rc;

/// The keys that match a pattern, page by page.
#[napi]
pub struct NativeScan {
    operations: Rc<OperationTable>,
    scan: Scan,
}

impl NativeScan {
    pub(crate) fn new(operations: Rc<OperationTable>, scan: Scan) -> Self {
        Self { operations, scan }
    }
}

#[napi]
impl NativeScan {
    /// Begins to fetch the next page.
    #[napi]
    pub fn next_page(&self) -> BeginResult {
        self.operations
            .submit("scanning", self.scan.next_page(), Reply::Page)
    }
}
