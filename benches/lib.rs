//! The benchmarks of sparsegp, each in a separate target.
