"""Tests of penstock.streams."""
