-- Lets a claim hold for another lease. Twin: `renew` in src/idempotency/record.rs.
--
-- ARGV[3] is the fence, ARGV[4] the lease in microseconds, ARGV[5] the retention in milliseconds.

local record = load()
local result = held(record, tonumber(ARGV[3]))
if result == DONE then
  record.lease_ends = now + ARGV[4]
  rewrite(record)
  redis.call('PEXPIRE', key, ARGV[5])
end
return result
