-- Decides charges each for itself: the short way for calls that hold nothing else.
-- The packed charges, bucket by bucket: algorithm and number of charges; then for each its kind, hits,
-- count_denied, L, W, B. The answer: for each bucket a packed row per charge (0 refused, 1 allowed, 2 more if
-- stored), or `!` and the error that the bucket met.

local answer, at = {}, 1
for bucket, key in ipairs(KEYS) do
  local number, n_charges
  number, n_charges, at = unpack_struct('>BI2', request, at)
  local kind = algorithms[number]
  local decide = kind[1]
  local state = load(key, kind)
  local problem, ttl = state and state.err, nil
  local rows
  for _ = 1, n_charges do
    local charge, hits, count_denied, L, W, B
    charge, hits, count_denied, L, W, B, at = unpack_struct('>BI7BI4I6I4', request, at)
    if not problem then
      local changed, allowed, remaining, wait, reset, before, after =
        decide(state, L, W, B, count_denied == 1, charge, hits, now)
      local flags = allowed and 1 or 0
      if changed ~= state then
        state, ttl, flags = changed, changed.ttl or reset, flags + 2
      end
      local row = pack('>BI7I7I7I7I7', flags, remaining, min(wait, NONE), min(reset, MAX), before, after)
      rows = rows and rows .. row or row
    end
  end
  if ttl then
    problem = store(key, kind, state, ttl)
  end
  answer[bucket] = problem and '!' .. problem or rows
end
return answer
