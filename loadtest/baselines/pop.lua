-- Pop one share of envelope KEYS[1] for user ARGV[1]; 0: sold out, -1: this user has one.
-- Three commands a win: the set of users who have opened, the shares, and the queue of claims for Postgres.
local users = 'u:' .. KEYS[1]
if redis.call('SADD', users, ARGV[1]) == 0 then
    return -1
end
local amount = redis.call('RPOP', 's:' .. KEYS[1])
if not amount then
    redis.call('SREM', users, ARGV[1])
    return 0
end
redis.call('RPUSH', 'claims', KEYS[1] .. ' ' .. ARGV[1] .. ' ' .. amount)
return tonumber(amount)
