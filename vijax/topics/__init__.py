"""Topics: fitted ones as a reader sees them, and documents that use few of them."""
