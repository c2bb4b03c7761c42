-- Weighs the previous window's count into the current one. Twin: src/algorithm/sliding_window_counter.rs,
-- which has the formulas. State: {k, previous, current}.

local function sliding_window_counter(state, L, W, _, count_denied, charge, hits, now)
  local offset = now % W
  local number = (now - offset) / W
  local k, previous, current = number, 0, 0
  if state then
    local age = number - state[1]
    if age <= 0 then
      k, previous, current = state[1], state[2], state[3]
    elseif age == 1 then
      previous = state[3]
    end
  end
  local written = k > number + 1
  if written then
    k = number
  end
  local elapsed, ahead = offset, 0
  if k ~= number then
    elapsed, ahead = 0, W - offset
  end
  local rest = W - elapsed

  local weighted, remainder = mul_div(rest, previous, W)
  local before = current + weighted + (remainder > 0 and 1 or 0)
  local allowed = true
  if charge == TAKE then
    allowed = hits <= L - before
    if allowed or count_denied then
      current = min(current + hits, MAX_STORED)
      written = true
    end
  elseif charge == PEEK then
    allowed = before <= L
  else
    local more = max(0, hits - current)
    written = written or min(hits, current) > 0 or min(more, previous) > 0
    current = max(0, current - hits)
    previous = max(0, previous - more)
    weighted, remainder = mul_div(rest, previous, W)
  end

  local after = current + weighted + (remainder > 0 and 1 or 0)
  local wait = NONE
  if not allowed and hits <= L then
    if current + hits <= L then
      wait = max(0, ahead + rest - (mul_div(W, L - current - hits, previous)))
    else
      wait = ahead + rest + max(0, W - (mul_div(W, L - hits, current)))
    end
  end
  local reset = 0
  if current > 0 then
    reset = ahead + rest + W
  elseif previous > 0 then
    reset = ahead + rest
  end
  if written then
    state = { k, previous, current }
  end
  return state, allowed, max(0, L - after), wait, reset, min(L, before), min(L, after)
end

algorithms[3] = { sliding_window_counter, '>I5I5I5', 15 }
