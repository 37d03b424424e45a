//! The document and the other writers are held to what the reader does.
