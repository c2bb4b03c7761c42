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

-- The state of a bucket, false if it has none, or {err = …}.
local function load(key, kind)
  local format = kind[2]
  if not format then
    return kind[3](key)
  end
  local stored = redis.pcall('GET', key)
  if type(stored) == 'string' then
    if #stored ~= kind[3] then
      return { err = 'WRONGTYPE not the state of a bucket' }
    end
    return { unpack_struct(format, stored) }
  end
  return stored
end

-- Keeps a state for `ttl` microseconds; answers the error if that failed.
local function store(key, kind, state, ttl)
  ttl = min(ttl, MAX)
  -- As text: Redis would take a microsecond to write a double.
  local px = string.format('%d', (ttl - ttl % 1000) / 1000 + extra_ms)
  local written
  if kind[2] then
    written = redis.pcall('SET', key, pack(kind[2], state[1], state[2], state[3]), 'PX', px)
  else
    written = kind[4](key, state, px)
  end
  return type(written) == 'table' and written.err or nil
end
