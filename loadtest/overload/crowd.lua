-- A crowd in an open loop: people come when they come, wait for `patience` and hang up. Run by LuaJIT, because a client
-- written in Python takes as much CPU as the gateway and would measure itself.
--
-- luajit crowd.lua HOST PORT ENVELOPES TOKENS SKIP PATIENCE_S AHEAD CONNECTIONS PHASE...
--   ENVELOPES: a file, each line an envelope's ID and share token; TOKENS: a file, each line a user's bearer token.
--   The open number n is that of envelope n % E, by user (n % E) * S + n / E modulo U: every open is another share.
--   SKIP: opens sent before. AHEAD: connections made before the first phase. CONNECTIONS: at most; people who find
--   none have come for nothing.
--   PHASE: SECONDS:RATE:REPEATS; who is refused or has waited for nothing tries again at once, up to REPEATS times.
-- Prints one JSON object (`crowd.py` reads it). People use the connection that was left last, or make one. Latencies count from the instant at which a person came, however late this process noticed.
local ffi = require("ffi")
local bit = require("bit")

ffi.cdef([[
struct timespec { long sec; long nsec; };
struct sockaddr_in { uint16_t family; uint16_t port; uint32_t address; char zero[8]; };
struct epoll_event { uint32_t events; uint64_t data; } ]] .. (ffi.arch == "x64" and "__attribute__((packed))" or "") .. [[;
int clock_gettime(int clock, struct timespec *now);
int nanosleep(const struct timespec *time, struct timespec *rest);
int epoll_create1(int flags);
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int socket(int domain, int type, int protocol);
int setsockopt(int fd, int level, int name, const void *value, uint32_t size);
int bind(int fd, const struct sockaddr_in *address, uint32_t size);
int connect(int fd, const struct sockaddr_in *address, uint32_t size);
long send(int fd, const char *bytes, size_t size, int flags);
long recv(int fd, char *bytes, size_t size, int flags);
int close(int fd);
]])
local C = ffi.C
local EPOLLIN, EPOLLOUT, ADD, MOD = 1, 4, 1, 3
local SOCK_STREAM_NONBLOCK, NOSIGNAL = 2048 + 1, 0x4000
local EAGAIN, EINPROGRESS = 11, 115
local NONE, CONNECTING, IDLE, WAITING = 0, 1, 2, 3
local MAX_FD, EVENTS, ANSWER = 65536, 1024, 65536
local TICK_S = 0.001 -- people come, and answers are read, in ticks of this length
local BUCKETS_PER_MS, SLOT_S, LATE_S = 10, 0.1, 0.05

local host, port, envelopes_file, tokens_file, skip, patience, ahead, most = unpack(arg, 1, 8)
port, skip, patience, ahead, most = tonumber(port), tonumber(skip), tonumber(patience), tonumber(ahead), tonumber(most)

local spec = ffi.new("struct timespec")
local function clock()
    C.clock_gettime(1, spec)
    return tonumber(spec.sec) + tonumber(spec.nsec) * 1e-9
end

local function lines(path)
    local found = {}
    for line in io.lines(path) do
        found[#found + 1] = line
    end
    return found
end

-- Requests are put together as they are sent: prepared ones would need gigabytes.
local ids, shares, tokens = {}, {}, lines(tokens_file)
for _, line in ipairs(lines(envelopes_file)) do
    ids[#ids + 1], shares[#shares + 1] = line:match("(%S+) (%S+)")
end
local scratch = ffi.new("char[4096]")
local function compose(number)
    local envelope, share = number % #ids, math.floor(number / #ids)
    local user = (envelope * 20 + share) % #tokens
    local text = scratch
    local function put(part)
        ffi.copy(text, part, #part)
        text = text + #part
    end
    put("POST /v1/envelopes/")
    put(ids[envelope + 1])
    put("/open HTTP/1.1\r\nHost: hongbao\r\nAuthorization: Bearer ")
    put(tokens[user + 1])
    put("\r\nX-Share-Token: ")
    put(shares[envelope + 1])
    put("\r\nContent-Length: 0\r\n\r\n")
    return text - scratch
end

local phases = {}
for at = 9, #arg do
    local seconds, rate, repeats = arg[at]:match("([^:]+):([^:]+):([^:]+)")
    local buckets = math.ceil(patience * 1000 * BUCKETS_PER_MS) + 1
    phases[#phases + 1] = {
        seconds = tonumber(seconds), rate = tonumber(rate), repeats = tonumber(repeats), offered = 0, repeated = 0,
        useful = 0, gave_up = 0, no_connection = 0, broken = 0, skipped = 0, late = 0, max_late = 0, answers = {},
        refused = 0, longest = 0, buckets = buckets, served_hist = ffi.new("int32_t[?]", buckets),
        refused_hist = ffi.new("int32_t[?]", buckets), connections = 0,
    }
end

-- What happened in each SLOT_S, for pictures and for how long it takes to settle.
local total_s = patience
for _, phase in ipairs(phases) do
    total_s = total_s + phase.seconds
end
local slots, slot_ms = math.ceil(total_s / SLOT_S) + 20, math.ceil(patience * 1000) + 1
local slot_useful, slot_refused, slot_gave_up = {}, {}, {}
local slot_hist = ffi.new("int32_t[?]", slots * slot_ms)
for at = 0, slots - 1 do
    slot_useful[at], slot_refused[at], slot_gave_up[at] = 0, 0, 0
end

local epoll = C.epoll_create1(0)
local events, event = ffi.new("struct epoll_event[?]", EVENTS), ffi.new("struct epoll_event")
local one, server, own = ffi.new("int[1]", 1), ffi.new("struct sockaddr_in"), ffi.new("struct sockaddr_in")
local function network(port_number)
    return bit.bor(bit.lshift(bit.band(port_number, 255), 8), bit.rshift(port_number, 8))
end
local function address(text)
    local a, b, c, d = text:match("(%d+)%.(%d+)%.(%d+)%.(%d+)")
    return bit.tobit(tonumber(a) + tonumber(b) * 256 + tonumber(c) * 65536 + tonumber(d) * 16777216)
end
server.family, server.port, server.address = 2, network(port), ffi.cast("uint32_t", address(host))
own.family, own.port = 2, 0

local state, generation = ffi.new("uint8_t[?]", MAX_FD), ffi.new("uint32_t[?]", MAX_FD)
local came, number_of, phase_of = ffi.new("double[?]", MAX_FD), ffi.new("int32_t[?]", MAX_FD), ffi.new("int16_t[?]", MAX_FD)
local tries, fresh = ffi.new("int16_t[?]", MAX_FD), ffi.new("bool[?]", MAX_FD)
local parts = {}
local idle, connections, addresses = {}, 0, 0
-- Who gives up next: a ring in order of coming.
local RING = 2 ^ 20
local ring_fd, ring_generation, ring_due = ffi.new("int32_t[?]", RING), ffi.new("uint32_t[?]", RING), ffi.new("double[?]", RING)
local ring_first, ring_end = 0, 0
local began, next_number = 0, skip
local launch

local function drop(fd)
    state[fd], generation[fd], parts[fd] = NONE, generation[fd] + 1, nil
    C.close(fd)
    connections = connections - 1
end

local function connected()
    local fd = C.socket(2, SOCK_STREAM_NONBLOCK, 0)
    if fd < 0 or fd >= MAX_FD then
        error("no more files for connections (ulimit -n)")
    end
    -- Many addresses, as people have them: a gateway bounds the connections of one. Port numbers do not run out either.
    addresses = (addresses + 1) % 200
    own.address = ffi.cast("uint32_t", address("127.0.1." .. (addresses + 1)))
    C.setsockopt(fd, 0, 24, one, 4) -- IP_BIND_ADDRESS_NO_PORT
    C.setsockopt(fd, 6, 1, one, 4) -- TCP_NODELAY
    C.bind(fd, own, 16)
    local done = C.connect(fd, server, 16)
    if done < 0 and ffi.errno() ~= EINPROGRESS then
        C.close(fd)
        return nil
    end
    event.events, event.data = done < 0 and EPOLLOUT or EPOLLIN, fd
    C.epoll_ctl(epoll, ADD, fd, event)
    connections = connections + 1
    state[fd], fresh[fd] = done < 0 and CONNECTING or WAITING, true
    return fd
end

local function write(fd)
    local size = compose(number_of[fd])
    -- A request of 500 bytes always fits the buffer of an empty socket.
    return C.send(fd, scratch, size, NOSIGNAL) == size
end

-- Let one person ask: `at` is when they came.
function launch(at, phase, number, try)
    local fd
    while #idle > 0 and not fd do
        local top = idle[#idle]
        idle[#idle] = nil
        if state[top] == IDLE then
            fd = top
        end
    end
    if fd then
        state[fd], fresh[fd] = WAITING, false
    elseif connections < most then
        fd = connected()
    end
    if not fd then
        phases[phase].no_connection = phases[phase].no_connection + 1
        return
    end
    came[fd], number_of[fd], phase_of[fd], tries[fd] = at, number, phase, try
    ring_fd[ring_end % RING], ring_generation[ring_end % RING] = fd, generation[fd]
    ring_due[ring_end % RING] = at + patience
    ring_end = ring_end + 1
    if state[fd] == WAITING and not write(fd) then
        drop(fd)
        if fresh[fd] then
            phases[phase].broken = phases[phase].broken + 1
        else
            launch(at, phase, number, try)
        end
    end
end

local function slot_of(now)
    return math.min(slots - 1, math.floor((now - began) / SLOT_S))
end

local function again(now, phase, number, try)
    if try < phases[phase].repeats then
        phases[phase].repeated = phases[phase].repeated + 1
        launch(now, phase, number, try + 1)
    end
end

local function give_up(now)
    while ring_first < ring_end and ring_due[ring_first % RING] <= now do
        local at = ring_first % RING
        local fd = ring_fd[at]
        ring_first = ring_first + 1
        if generation[fd] == ring_generation[at] and (state[fd] == WAITING or state[fd] == CONNECTING) then
            local phase, number, try = phase_of[fd], number_of[fd], tries[fd]
            phases[phase].gave_up = phases[phase].gave_up + 1
            local slot = slot_of(now)
            slot_gave_up[slot] = slot_gave_up[slot] + 1
            drop(fd)
            again(now, phase, number, try)
        end
    end
end

local function answered(fd, now, text, size)
    local phase = phases[phase_of[fd]]
    local ms = (now - came[fd]) * 1000
    local bucket, slot = math.min(phase.buckets - 1, math.floor(ms * BUCKETS_PER_MS)), slot_of(now)
    local number, try, at = number_of[fd], tries[fd], phase_of[fd]
    state[fd], generation[fd] = IDLE, generation[fd] + 1
    idle[#idle + 1] = fd
    phase.longest = math.max(phase.longest, ms)
    if text[9] == 50 then -- 2xx
        phase.useful = phase.useful + 1
        phase.served_hist[bucket] = phase.served_hist[bucket] + 1
        slot_useful[slot] = slot_useful[slot] + 1
        local place = slot * slot_ms + math.min(slot_ms - 1, math.floor(ms))
        slot_hist[place] = slot_hist[place] + 1
        return
    end
    local code = ffi.string(text, size):match('"code":"([%w_]+)"') or "none"
    phase.answers[code] = (phase.answers[code] or 0) + 1
    phase.refused = phase.refused + 1
    phase.refused_hist[bucket] = phase.refused_hist[bucket] + 1
    slot_refused[slot] = slot_refused[slot] + 1
    again(now, at, number, try)
end

local buffer = ffi.new("char[?]", ANSWER)
local function readable(fd, now)
    local size = tonumber(C.recv(fd, buffer, ANSWER, 0))
    if size < 0 and ffi.errno() == EAGAIN then
        return
    end
    if size <= 0 then
        local waiting, phase, number, try, at = state[fd] == WAITING, phase_of[fd], number_of[fd], tries[fd], came[fd]
        local again_unseen = waiting and not fresh[fd] and not parts[fd]
        drop(fd)
        if again_unseen then
            launch(at, phase, number, try) -- a server may end an idle connection at any time: nothing was answered
        elseif waiting then
            phases[phase].broken = phases[phase].broken + 1
        end
        return
    end
    if state[fd] ~= WAITING then
        return -- the rest of what nobody waits for
    end
    -- Every answer is one JSON object, and short enough to come whole.
    if not parts[fd] and buffer[size - 1] == 125 then
        return answered(fd, now, buffer, size)
    end
    parts[fd] = (parts[fd] or "") .. ffi.string(buffer, size)
    if parts[fd]:sub(-1) == "}" then
        local text = parts[fd]
        parts[fd] = nil
        ffi.copy(buffer, text, #text)
        answered(fd, now, buffer, #text)
    end
end

local function writable(fd)
    event.events, event.data = EPOLLIN, fd
    C.epoll_ctl(epoll, MOD, fd, event)
    state[fd] = WAITING
    if not write(fd) then
        phases[phase_of[fd]].broken = phases[phase_of[fd]].broken + 1
        drop(fd)
    end
end

-- People have opened their app before they tap: some connections stand, made a few in each tick.
while connections < math.min(ahead, most) do
    for _ = 1, 4 do
        local fd = connected()
        if fd then
            state[fd], fresh[fd], came[fd] = IDLE, false, 0
            event.events, event.data = EPOLLIN, fd
            C.epoll_ctl(epoll, MOD, fd, event)
            idle[#idle + 1] = fd
        end
    end
    spec.sec, spec.nsec = 0, TICK_S * 1e9
    C.nanosleep(spec, nil)
end
began = clock()
local now, at, phase_ends, next_at, ticked = began, 1, began + phases[1].seconds, began, began
while true do
    now = clock()
    while at <= #phases and next_at <= now do
        if next_at >= phase_ends then
            phases[at].connections = connections
            at = at + 1
            if at <= #phases then
                next_at, phase_ends = phase_ends, phase_ends + phases[at].seconds
            end
        else
            local phase = phases[at]
            phase.offered = phase.offered + 1
            local late = now - next_at
            phase.max_late = math.max(phase.max_late, late)
            if late > LATE_S then
                phase.late = phase.late + 1
            end
            if late > patience then
                phase.skipped = phase.skipped + 1
            else
                launch(next_at, at, next_number, 0)
            end
            next_number = next_number + 1
            next_at = next_at - math.log(1 - math.random()) / phase.rate
        end
    end
    give_up(now)
    if at > #phases and ring_first == ring_end then
        break
    end
    -- Asleep until the next tick whatever comes: a process that each answer wakes would cost the server that sends it
    -- several microseconds more.
    local rest_s = ticked + TICK_S - now
    if rest_s > 0 then
        spec.sec, spec.nsec = 0, rest_s * 1e9
        C.nanosleep(spec, nil)
    end
    ticked = clock()
    local count
    repeat
        count, now = C.epoll_wait(epoll, events, EVENTS, 0), clock()
        for index = 0, count - 1 do
            local fd = tonumber(events[index].data)
            if state[fd] == CONNECTING then
                writable(fd)
            elseif state[fd] ~= NONE then
                readable(fd, now)
            end
        end
    until count < EVENTS
end

local function percentile(hist, buckets, percent)
    local total = 0
    for index = 0, buckets - 1 do
        total = total + hist[index]
    end
    local seen = 0
    for index = 0, buckets - 1 do
        seen = seen + hist[index]
        if total > 0 and seen >= total * percent / 100 then
            return (index + 1) / BUCKETS_PER_MS
        end
    end
    return 0
end

local function listed(values, form)
    local texts = {}
    for index = 1, #values do
        texts[index] = string.format(form, values[index])
    end
    return "[" .. table.concat(texts, ",") .. "]"
end

local shown = {}
for index, phase in ipairs(phases) do
    local answers = {}
    for code, count in pairs(phase.answers) do
        answers[#answers + 1] = string.format('"%s":%d', code, count)
    end
    table.sort(answers)
    local served, refused, buckets = phase.served_hist, phase.refused_hist, phase.buckets
    shown[index] = string.format(
        '{"seconds":%g,"rate":%g,"offered":%d,"repeated":%d,"useful":%d,"gave_up":%d,"no_connection":%d,"broken":%d,'
            .. '"skipped":%d,"late":%d,"max_late_ms":%.1f,"connections":%d,"answers":{%s},"p50_ms":%.1f,"p99_ms":%.1f,'
            .. '"refused_p50_ms":%.1f,"refused_p99_ms":%.1f,"longest_ms":%.1f}',
        phase.seconds, phase.rate, phase.offered, phase.repeated, phase.useful, phase.gave_up, phase.no_connection,
        phase.broken, phase.skipped, phase.late, phase.max_late * 1000, phase.connections, table.concat(answers, ","),
        percentile(served, buckets, 50), percentile(served, buckets, 99),
        percentile(refused, buckets, 50), percentile(refused, buckets, 99), phase.longest
    )
end
local useful, refused, gave_up, p99 = {}, {}, {}, {}
for slot = 0, math.min(slots - 1, slot_of(now)) do
    local index = slot + 1
    useful[index], refused[index], gave_up[index] = slot_useful[slot], slot_refused[slot], slot_gave_up[slot]
    local total, seen = slot_useful[slot], 0
    p99[index] = 0
    for ms = 0, slot_ms - 1 do
        seen = seen + slot_hist[slot * slot_ms + ms]
        if total > 0 and seen >= total * 0.99 then
            p99[index] = ms + 1
            break
        end
    end
end
print(string.format(
    '{"phases":[%s],"sent":%d,"slot_s":%g,"useful":%s,"refused":%s,"gave_up":%s,"p99_ms":%s}',
    table.concat(shown, ","), next_number - skip, SLOT_S, listed(useful, "%d"), listed(refused, "%d"),
    listed(gave_up, "%d"), listed(p99, "%d")
))
