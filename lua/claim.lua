-- Claims an operation. Twin: `claim` in src/idempotency/record.rs.
--
-- ARGV[3] is the fingerprint, `<version>:<digest>`, ARGV[4] the lease in microseconds, ARGV[5] the retention
-- in milliseconds, ARGV[6] whether a lease that has ended lets others take over (1).

local GIVEN_FIRST, GIVEN_TAKEOVER, IN_PROGRESS, UNKNOWN, OVER, MISMATCH, UNVERIFIABLE = 0, 1, 2, 3, 4, 5, 6

local print, lease, retention, takes_over = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1'

local function given(record)
  return { record.attempt == FIRST and GIVEN_FIRST or GIVEN_TAKEOVER, record.fence }
end

local function start(attempt, fence)
  local record = { phase = RUNNING, attempt = attempt, owner = owner, fence = fence,
    lease_ends = now + lease, since = now, print = print }
  store(record, '', retention)
  return given(record)
end

local function again(record)
  record.lease_ends = now + lease
  store(record, '', retention)
  return given(record)
end

local function version(print)
  return print:match('^[^:]*')
end

local now_in_millis = (now - now % 1000) / 1000
local record = load()
if record == nil then
  return start(FIRST, now_in_millis)
end
if not record or version(record.print) ~= version(print) then
  return { UNVERIFIABLE }
end
if record.print ~= print then
  return { MISMATCH }
end
local next_fence = math.max(now_in_millis, record.fence + 1)
if record.phase == FINISHED then
  return { OVER, math.max(0, now - record.since), redis.call('GETRANGE', key, HEAD + #print, -1) }
elseif record.phase == RELEASED then
  return start(record.attempt, next_fence)
elseif record.owner == owner then
  return again(record)
elseif now < record.lease_ends then
  return { IN_PROGRESS, record.lease_ends - now }
elseif takes_over then
  return start(TAKEOVER, next_fence)
end
return { UNKNOWN, record.since }
