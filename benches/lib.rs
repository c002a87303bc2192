//! The benchmarks of sparsegp; each is a target of its own.
