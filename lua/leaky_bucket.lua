-- Hits pour in, the level drains steadily; paces what passes. Twin: src/algorithm/leaky_bucket.rs, which has
-- the formulas. State: {whole, fraction, at}.

-- max(0, y - z), both as whole hits and a fraction.
local function without(whole, fraction, less_whole, less_fraction, W)
  whole, fraction = whole - less_whole, fraction - less_fraction
  if fraction < 0 then
    whole, fraction = whole - 1, fraction + W
  end
  if whole < 0 then
    return 0, 0
  end
  return whole, fraction
end

local function leaky_bucket(state, L, W, B, count_denied, charge, hits, now)
  local whole, fraction, at = 0, 0, now
  if state then
    whole, fraction, at = state[1], state[2], state[3]
  end
  local written = at > now + W
  if written then
    at = now
  end
  local time = max(now, at)
  local drained, rest = mul_div(L, time - at, W)
  whole, fraction = without(whole, fraction, drained, rest, W)

  local before = max(0, B - whole - (fraction > 0 and 1 or 0))
  local most = max(L, B)
  -- The level from which on the charge passes, in whole hits.
  local target = charge == PEEK and B or max(0, B - 1)
  local low = whole < target or (whole == target and fraction == 0)
  local allowed = true
  if charge == TAKE then
    allowed = hits <= most and low
    if allowed or count_denied then
      whole = whole + hits
      if whole >= MAX_STORED then
        whole, fraction = MAX_STORED, 0
      end
      written = true
    end
  elseif charge == PEEK then
    allowed = low
  else
    written = written or (hits > 0 and (whole > 0 or fraction > 0))
    whole, fraction = without(whole, fraction, hits, 0, W)
  end

  local after = max(0, B - whole - (fraction > 0 and 1 or 0))
  local wait, reset = NONE, 0
  if not allowed and hits <= most then
    wait = time - now + time_to_drip(max(0, whole - target), fraction, L, W)
  end
  if whole > 0 or fraction > 0 then
    reset = time - now + time_to_drip(whole, fraction, L, W)
  end
  if written then
    state = { whole, fraction, time }
  end
  return state, allowed, after, wait, reset, B - before, B - after
end

algorithms[5] = { leaky_bucket, '>I5I6I7', 18 }
