"""One part at a time on real Postgres and memcached, which conftest.py starts; each folder has the name of its part."""
