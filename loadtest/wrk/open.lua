-- wrk's script for opens: prepared requests from a file, one after the other: args are the file, the lines to skip and
-- how many to read at most. After the last of them it begins again at the first.
local requests, at = {}, 0

function init(args)
    local skip, most, line = tonumber(args[2]), tonumber(args[3]), 0
    for text in io.lines(args[1]) do
        line = line + 1
        if line > skip then
            local id, share, bearer = text:match("(%d+) (%S+) (%S+)")
            requests[#requests + 1] = "POST /v1/envelopes/" .. id .. "/open HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
                .. bearer .. "\r\nX-Share-Token: " .. share .. "\r\nContent-Length: 0\r\n\r\n"
            if #requests == most then
                break
            end
        end
    end
end

function request()
    at = at + 1
    return requests[(at - 1) % #requests + 1]
end
