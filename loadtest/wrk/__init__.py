"""wrk as the client of the HTTP figures: a C program that takes a third of the CPU of our own generator per request.

Client and system share the cores of one machine, so what the client takes is missing from every rate. `client` runs
wrk and reads its report; `prepared` writes the requests that its Lua scripts (`open.lua`, `create.lua`) send. wrk is a
closed loop: it gives rates at saturation; latency at a given load is measured by `loadtest.openloop`.
"""
