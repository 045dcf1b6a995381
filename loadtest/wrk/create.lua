-- wrk's script for creates: each request is a new envelope, under an Idempotency-Key of its own.
local prefix, head, tail, at = "", "", "", 0

function init(args)
    prefix = args[1]
    head = "POST /v1/envelopes HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nAuthorization: Bearer "
        .. args[2] .. "\r\nIdempotency-Key: " .. prefix .. "-"
    tail = "\r\nContent-Length: " .. #args[3] .. "\r\n\r\n" .. args[3]
end

function request()
    at = at + 1
    return head .. at .. tail
end
