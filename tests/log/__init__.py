"""Tests of penstock.log, and the broken disks that other tests use too."""
