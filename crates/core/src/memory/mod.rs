//! The reference store and publisher.
