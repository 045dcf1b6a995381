-- wrk's script for loadtest.http: prepared open requests from a file, one after the other.
local requests, at = {}, 0

function init(args)
    for line in io.lines(args[1]) do
        local id, share, bearer = line:match("(%d+) (%S+) (%S+)")
        local body = '{"share_token":"' .. share .. '"}'
        requests[#requests + 1] = "POST /v1/envelopes/" .. id .. "/open HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
            .. bearer .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
    end
end

function request()
    at = at + 1
    return requests[(at - 1) % #requests + 1]
end
