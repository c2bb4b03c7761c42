-- Gives an operation back that did not run. Twin: `release` in src/idempotency/record.rs.
--
-- ARGV[3] is the fence.

local record = load()
local result = held(record, tonumber(ARGV[3]))
if result == DONE then
  record.phase, record.since = RELEASED, now
  rewrite(record)
end
return result
