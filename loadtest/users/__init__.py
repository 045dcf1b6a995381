"""People as locust plays them: what they do, how fast, and what they must not hear.

`world` is what one locust process knows (its plan, the group chats, the tally); `memory` remembers what each user was
told and finds contradictions; both are plain Python. `person` speaks HTTP for one user; `crowds` has a class for each
profile. Only those two import locust, and only locust's own processes import them: locust replaces the sockets of its
process by gevent's.

Promise: whatever a user hears that contradicts what he heard before is a failure in the tally, with a sentence.
"""
