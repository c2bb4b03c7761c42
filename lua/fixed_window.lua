-- Counts in windows that stand side by side. Twin: src/algorithm/fixed_window.rs, which has the formulas.
-- State: {start, used}. In the place of B stands whether windows begin with the first hit (1) or stand on the
-- epoch (0).

local function fixed_window(state, L, W, first_hit, count_denied, charge, hits, now)
  local fresh = first_hit == 1 and now or now - now % W
  local live = state and now < state[1] + W
  local start, used = fresh, 0
  if live then
    start, used = state[1], state[2]
  end
  local written = start > now + W
  if written then
    start = fresh
  end

  local before = used
  local allowed = true
  if charge == TAKE then
    allowed = hits <= L - used
    if allowed or (count_denied and used <= L) then
      used = min(used + hits, MAX)
      written = true
    end
  elseif charge == PEEK then
    allowed = used <= L
  else
    used = max(0, used - hits)
    written = written or used < before
  end

  local left = start + W - now
  local wait, reset = NONE, left
  if not allowed and hits <= L then
    wait = left
  end
  if first_hit == 1 and not live and not written then
    reset = 0
  end
  if written then
    state = { start, used }
  end
  return state, allowed, max(0, L - used), wait, reset, before, used
end

algorithms[1] = { fixed_window, '>I7I7', 14 }
