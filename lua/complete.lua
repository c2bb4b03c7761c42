-- Says what became of an operation. Twin: `complete` in src/idempotency/record.rs.
--
-- ARGV[3] is the fence, ARGV[4] the retention in milliseconds, ARGV[5] the outcome.

local record = load()
local result = held(record, tonumber(ARGV[3]))
if result == DONE then
  record.phase, record.since = FINISHED, now
  store(record, ARGV[5], ARGV[4])
end
return result
