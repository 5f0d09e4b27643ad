//! Fields of JSON records: masks that select them, projections, and priorities by name.

pub mod mask;
pub mod minify;
pub mod priority;
pub mod projection;

pub use mask::Mask;
pub use minify::minify;
pub use projection::Projection;
