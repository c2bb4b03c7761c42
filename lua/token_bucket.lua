-- Tokens drip in, a hit takes one; saves up to a burst. Twin: src/algorithm/token_bucket.rs, which has the
-- formulas. State: {whole, fraction, at}.

local function token_bucket(state, L, W, B, count_denied, charge, hits, now)
  local whole, fraction, at = B, 0, now
  if state then
    whole, fraction, at = state[1], state[2], state[3]
  end
  local written = at > now + W
  if written then
    at = now
  end
  local time = max(now, at)
  local drips, rest = mul_div(L, time - at, W)
  whole, fraction = whole + drips, fraction + rest
  if fraction >= W then
    whole, fraction = whole + 1, fraction - W
  end
  if whole >= B then
    whole, fraction = B, 0
  end

  local before = max(0, whole)
  local allowed = true
  if charge == TAKE then
    allowed = whole >= hits
    if allowed or count_denied then
      whole = whole - hits
      if whole < -MAX_STORED then
        whole, fraction = -MAX_STORED, 0
      end
      written = true
    end
  elseif charge == PEEK then
    allowed = whole >= 0
  elseif whole < B and hits > 0 then
    whole = whole + hits
    if whole >= B then
      whole, fraction = B, 0
    end
    written = true
  end

  -- hW - x = (h - n - 1)W + (W - r), with h - n >= 1 because x < hW.
  local after = max(0, whole)
  local wait, reset = NONE, 0
  if not allowed and hits <= B then
    wait = time - now + time_to_drip(hits - whole - 1, W - fraction, L, W)
  end
  if whole < B then
    reset = time - now + time_to_drip(B - whole - 1, W - fraction, L, W)
  end
  if written then
    state = { whole, fraction, time }
  end
  return state, allowed, after, wait, reset, B - before, B - after
end

algorithms[4] = { token_bucket, '>i5I6I7', 18 }
