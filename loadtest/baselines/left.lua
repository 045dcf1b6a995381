-- What all lists of shares still hold, in fen.
local left = 0
for _, name in ipairs(redis.call('KEYS', 's:*')) do
    for _, amount in ipairs(redis.call('LRANGE', name, 0, -1)) do
        left = left + tonumber(amount)
    end
end
return left
