"""HTTP as the handlers see it: a request and its body in, an answer out."""
