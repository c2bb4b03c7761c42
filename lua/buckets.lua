-- The time of a call, and how buckets are read and written.
--
-- KEYS are the distinct buckets. ARGV[1] is the time in microseconds (empty: this node's), ARGV[2]
-- milliseconds to add to every expiry, ARGV[3] the packed charges.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local extra_ms = 1001 + ARGV[2] -- a key outlives what it holds by a second, rounded up
local request = ARGV[3]

local function load(bucket, kind)
  if kind[2] then
    local stored = redis.pcall('GET', KEYS[bucket])
    return type(stored) == 'string' and { unpack_struct(kind[2], stored) } or stored
  end
  return kind[3](KEYS[bucket])
end

-- Keeps a state for `ttl` microseconds; answers the error if that failed.
local function store(bucket, kind, state, ttl)
  ttl = min(ttl, MAX)
  local px = (ttl - ttl % 1000) / 1000 + extra_ms
  local written
  if kind[2] then
    written = redis.pcall('SET', KEYS[bucket], pack(kind[2], unpack(state)), 'PX', px)
  else
    written = kind[4](KEYS[bucket], state, px)
  end
  return type(written) == 'table' and written.err or nil
end
