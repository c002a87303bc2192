//! The latent layer: where inducing inputs start.

pub mod init;
