"""What this machine has for us: accounts, programs, ports, and the data folder with its keys.

May a process run as root, where are Postgres, memcached and the others, which ports are free, who holds the data
folder.
"""
