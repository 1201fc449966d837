"""Tests that break things and go on using them."""
