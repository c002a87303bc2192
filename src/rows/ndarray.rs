//! Rows from arrays of ndarray 0.16.

super::from_arrays!(ndarray);
