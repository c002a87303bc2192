//! Work on several threads by rayon, or one piece after the other without the feature `rayon`.

#[cfg(not(feature = "rayon"))]
mod sequential;

#[cfg(feature = "rayon")]
pub(crate) use rayon::{current_num_threads, current_thread_index, join, prelude::*, scope};
#[cfg(not(feature = "rayon"))]
pub(crate) use sequential::*;
