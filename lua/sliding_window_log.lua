-- Remembers every hit of the last window. Twin: src/algorithm/sliding_window_log.rs, which has the formulas.
--
-- One sorted set: scores are times, members are {total, weight}: the sum of all hits ever recorded up to and
-- with this entry (modulo 2^53: only differences count), and its own. So sums and waits come from ranks.
-- State: {stored, low, high, tail}: the stored entries of ranks low..high-1, then those of `tail`, which are
-- not stored yet; `ttl` is how long a written one must be kept. `stored` is {key, size, seen}; `seen` remembers
-- the entries that were read.

local function plus(total, hits)
  if total > MAX - hits then
    return total - (MAX - hits) - 1
  end
  return total + hits
end

local function minus(total, hits)
  if total < hits then
    return total + (MAX - hits) + 1
  end
  return total - hits
end

local function load_log(key)
  local size = redis.pcall('ZCARD', key)
  if type(size) == 'table' then
    return size
  end
  return size > 0 and { { key = key, size = size, seen = {} }, 0, size, {} }
end

local EMPTY = { { size = 0, seen = {} }, 0, 0, {} }

local function size_of(log)
  return log[3] - log[2] + #log[4]
end

-- The entry at index 0.. as {at, total, weight}.
local function entry(log, index)
  local stored, low, high, tail = log[1], log[2], log[3], log[4]
  local rank = low + index
  if rank >= high then
    return tail[rank - high + 1]
  end
  local seen = stored.seen[rank]
  if not seen then
    local found = redis.call('ZRANGE', stored.key, rank, rank, 'WITHSCORES')
    local total, weight = unpack_struct('>I7I7', found[1])
    seen = { tonumber(found[2]), total, weight }
    stored.seen[rank] = seen
  end
  return seen
end

local function newest(log)
  local size = size_of(log)
  if size > 0 then
    return entry(log, size - 1)
  end
end

-- The first index from `from` whose entry passes the test, or the size: every later one passes it too.
local function first_index(log, from, passes)
  local low, high = from, size_of(log)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if passes(entry(log, middle)) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- How many entries at the front are a window old.
local function n_dead(log, time, W)
  local stored, low, high, tail = log[1], log[2], log[3], log[4]
  local dead = 0
  if high > low then
    local old = redis.call('ZCOUNT', stored.key, '-inf', time - W)
    dead = max(0, min(high, old) - low)
  end
  while dead >= high - low and tail[dead - (high - low) + 1] and tail[dead - (high - low) + 1][1] + W <= time do
    dead = dead + 1
  end
  return dead
end

-- u, the sum of the entries from index `dead` on.
local function used_from(log, dead)
  if dead >= size_of(log) then
    return 0
  end
  local oldest = entry(log, dead)
  return minus(newest(log)[2], minus(oldest[2], oldest[3]))
end

-- The log without its first `dead` entries and without those from index `keep` on, then `last`.
local function changed(log, dead, keep, last)
  local stored, low, high, tail = log[1], log[2], log[3], log[4]
  local n_stored = high - low
  local copy = {}
  for i = max(0, dead - n_stored) + 1, min(#tail, keep - n_stored) do
    copy[#copy + 1] = tail[i]
  end
  copy[#copy + 1] = last
  local first = low + min(dead, n_stored)
  return { stored, first, max(first, low + min(keep, n_stored)), copy }
end

local function sliding_window_log(state, L, W, _, count_denied, charge, hits, now)
  local log = state or EMPTY
  local last = newest(log)
  local time = max(now, last and last[1] or 0)
  local written = time > now + W
  local dead = n_dead(log, time, W)
  local used = used_from(log, dead)
  if written then
    log = changed(log, size_of(log), size_of(log), { now, last[2], used })
    last, dead, time = newest(log), 0, now
  end

  local before = used
  local allowed = true
  if charge == TAKE then
    allowed = hits <= L - used
    if allowed or count_denied then
      local size = size_of(log)
      local more = min(hits, MAX - used)
      local total = plus(last and last[2] or 0, more)
      -- Entries of one time stand in the order of their totals, which a total that begins anew breaks.
      local breaks = last and last[1] == time and total < last[2]
      if dead < size and (used > L or breaks) then
        log = changed(log, dead, size - 1, { time, total, last[3] + more })
      else
        log = changed(log, dead, size, { time, total, more })
      end
      dead, used, written = 0, used + more, true
    end
  elseif charge == PEEK then
    allowed = used <= L
  else
    local less = min(hits, used)
    if less > 0 then
      local total = minus(last[2], less)
      -- The first entry that ends beyond what is left; what remains of it stays.
      local keep = first_index(log, dead, function(found)
        return minus(last[2], found[2]) < less
      end)
      local cut = entry(log, keep)
      local rest = cut[3] - minus(cut[2], total)
      log = changed(log, dead, keep, rest > 0 and { cut[1], total, rest } or nil)
      dead, used, written = 0, used - less, true
    end
  end

  local wait, reset = NONE, 0
  if not allowed and hits <= L then
    local rest = L - hits
    local total = newest(log)[2]
    local reaching = first_index(log, dead, function(found)
      return minus(total, found[2]) <= rest
    end)
    wait = entry(log, reaching)[1] + W - now
  end
  if dead < size_of(log) then
    reset = entry(log, dead)[1] + W - now
  end
  if written then
    local final = newest(log)
    log.ttl = final and final[1] + W - now or 0
    state = log
  end
  return state, allowed, max(0, L - used), wait, reset, min(L, before), min(L, used)
end

local function store_log(key, log, px)
  local stored, low, high, tail = log[1], log[2], log[3], log[4]
  if high < stored.size then
    redis.call('ZREMRANGEBYRANK', key, high, stored.size - 1)
  end
  if low > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, low - 1)
  end
  for _, added in ipairs(tail) do
    local result = redis.pcall('ZADD', key, added[1], pack('>I7I7', added[2], added[3]))
    if type(result) == 'table' then
      return result
    end
  end
  return redis.call('PEXPIRE', key, px)
end

algorithms[2] = { sliding_window_log, nil, load_log, store_log }
