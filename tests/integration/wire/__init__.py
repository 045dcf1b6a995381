"""Links between processes, over real sockets."""
