-- Put ARGV[1] shares of ARGV[2] fen into each of the envelopes KEYS.
local chunk = {}
for at = 1, math.min(1000, tonumber(ARGV[1])) do
    chunk[at] = ARGV[2]
end
for _, envelope in ipairs(KEYS) do
    local left = tonumber(ARGV[1])
    while left > 0 do
        local size = math.min(left, #chunk)
        redis.call('RPUSH', 's:' .. envelope, unpack(chunk, 1, size))
        left = left - size
    end
end
