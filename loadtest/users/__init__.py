"""People as locust plays them: what they do, how fast, and which answers would contradict earlier ones.

`world` is what one locust process knows (its plan, the group chats, the tally); `known_answers` remembers what each
user was answered and finds contradictions; both are plain Python. `person` speaks HTTP for one user; `crowds` has a
class for each profile. Only those two import locust, and only locust's own processes import them, because locust
replaces the sockets of its process by gevent's.

Promise: an answer that contradicts an earlier answer to the same user is a failure in the tally, with a sentence
(`tests/unit/loadtest/test_known_answers.py`).
"""
