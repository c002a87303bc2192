//! Rows from arrays of ndarray 0.17.

super::from_arrays!(ndarray_0_17);
