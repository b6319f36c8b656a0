"""What comes out: weighted particles, and everything one wants to know of them."""
