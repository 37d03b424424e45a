//! Stub: replaced by the export branch.
//! Stub.
