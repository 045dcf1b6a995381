-- wrk's script for opens: prepared requests from a file, one after the other, from the given line on.
local requests, at = {}, 0

function init(args)
    for line in io.lines(args[1]) do
        local id, share, bearer = line:match("(%d+) (%S+) (%S+)")
        requests[#requests + 1] = "POST /v1/envelopes/" .. id .. "/open HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
            .. bearer .. "\r\nX-Share-Token: " .. share .. "\r\nContent-Length: 0\r\n\r\n"
    end
    at = tonumber(args[2])
end

function request()
    at = at + 1
    return requests[(at - 1) % #requests + 1]
end
