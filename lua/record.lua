-- What is remembered of an operation, and what every script of idempotency begins with. Twin:
-- src/idempotency/record.rs, which says what the states are.
--
-- KEYS[1] is the operation, ARGV[1] the time in microseconds (empty: this node's), ARGV[2] the owner. A
-- record is one string: what HEAD packs, the fingerprint, and, if it is finished, the outcome, whose bytes
-- are src/idempotency/layout.rs's. Its expiry is the end of its retention.

local VERSION = 1
local RUNNING, FINISHED, RELEASED = 0, 1, 2
local FIRST, TAKEOVER = 0, 1
local DONE, STALE, ALREADY, MISSING = 0, 1, 2, 3

-- Version, phase, attempt, owner, fence, end of the lease, since when, fingerprint.
local LAYOUT = '>BBBc16I7I7I7Bc0'
local HEAD = 41 -- bytes of it before the fingerprint
local MAX_PRINT = 255

local key, owner = KEYS[1], ARGV[2]

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- The record without its outcome; nil if there is none, false if another version wrote it.
local function load()
  local bytes = redis.call('GETRANGE', key, 0, HEAD + MAX_PRINT - 1)
  if bytes == '' then
    return nil
  end
  if bytes:byte(1) ~= VERSION or #bytes < HEAD or #bytes < HEAD + bytes:byte(HEAD) then
    return false
  end
  local record = {}
  local version
  version, record.phase, record.attempt, record.owner, record.fence, record.lease_ends, record.since, record.print =
    struct.unpack(LAYOUT, bytes)
  return record
end

local function pack(record)
  return struct.pack(LAYOUT, VERSION, record.phase, record.attempt, record.owner, record.fence,
    record.lease_ends, record.since, #record.print, record.print)
end

-- Keeps a record for so many milliseconds.
local function store(record, outcome, keep)
  redis.call('SET', key, pack(record) .. outcome, 'PX', keep)
end

-- Keeps it for as long as it was to be kept.
local function rewrite(record)
  redis.call('SETRANGE', key, 0, pack(record))
end

-- Whether a record is the owner's, of this fence, to write: DONE, or why not.
local function held(record, fence)
  if record == nil then
    return MISSING
  elseif not record or record.owner ~= owner or record.fence ~= fence then
    return STALE
  elseif record.phase ~= RUNNING then
    return ALREADY
  end
  return DONE
end
