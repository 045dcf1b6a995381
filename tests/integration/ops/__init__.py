"""The operator's view, served in the test's loop over a real stack."""
