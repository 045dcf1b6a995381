"""The processes of a stack: started, watched, ended."""
