-- Decides the groups of a call in order. Twin: src/algorithm/group.rs.
--
-- KEYS are the distinct buckets. ARGV: the time in microseconds (empty: this node's), milliseconds to add to
-- every expiry, and one packed text: for each group its number of members, for each member its charge, hits,
-- vote and number of items, for each item its bucket, algorithm, flags, L, W and B. The answer is a packed
-- row per item, in that order, and the first error of each kind of bucket that could not be read or written.

local BY_NUMBER = {
  algorithms.fixed_window_epoch,
  algorithms.fixed_window_first_hit,
  algorithms.sliding_window_log,
  algorithms.sliding_window_counter,
  algorithms.token_bucket,
  algorithms.leaky_bucket,
}
local COUNT_DENIED, POST_PAID = 1, 2
local FAILED = 255
local GRACE_MS = 1000 -- a key outlives its bucket by this

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local jitter_ms = tonumber(ARGV[2])
local request = ARGV[3]

-- By bucket: what it holds, what it held, how it is stored, and the error that it met.
local states, originals, stores, errors = {}, {}, {}, {}

local function load(bucket, algorithm)
  if stores[bucket] then
    return
  end
  stores[bucket] = algorithm
  local ok, state = pcall(algorithm.load, KEYS[bucket])
  if ok then
    states[bucket], originals[bucket] = state, state
  else
    errors[bucket] = type(state) == 'table' and state.err or tostring(state)
  end
end

-- Rows of the answer: {bucket, allowed, remaining, wait, reset, before, after, written}.
local rows = {}

local function apply(item, charge, hits)
  local bucket = item.bucket
  local state, allowed, remaining, wait, reset, before, after =
    item.algorithm.decide(states[bucket], item.L, item.W, item.B, item.count_denied, charge, hits, now)
  local written = state ~= states[bucket]
  states[bucket] = state
  return { bucket, allowed, remaining, wait, reset, before, after, written }
end

-- What buckets held before the charges that may have to be undone: pairs of bucket and state, in order.
local undo, in_doubt = {}, false

local function remember(bucket)
  undo[#undo + 1] = { bucket, states[bucket] }
end

local function restore(mark)
  for i = #undo, mark + 1, -1 do
    states[undo[i][1]] = undo[i][2]
    undo[i] = nil
  end
end

-- Consumes what a refused member or group consumes all the same. The verdicts stand, the rest of each row is
-- that of what is left.
local function settle(member)
  for i, item in ipairs(member.items) do
    local verdict = rows[member.first + i]
    local charge = member.charge
    if charge == TAKE and not (item.post_paid or (not verdict[2] and item.count_denied)) then
      charge = PEEK
    end
    if in_doubt and charge ~= PEEK then
      remember(item.bucket)
    end
    local row = apply(item, charge, charge == PEEK and 0 or member.hits)
    if verdict[2] then
      row[4] = NONE
    elseif not (charge == member.charge and not row[2]) then
      row[4] = verdict[4]
    end
    row[2] = verdict[2]
    row[8] = row[8] or (member.charge == PEEK and verdict[8])
    rows[member.first + i] = row
  end
end

-- Decides a member as if it were alone; says whether it fits.
local function decide_member(member)
  local mark = #undo
  local alone = #member.items == 1 or member.charge ~= TAKE
  local fits = true
  for i, item in ipairs(member.items) do
    if (in_doubt or not alone) and member.charge ~= PEEK then
      remember(item.bucket)
    end
    local row = apply(item, member.charge, member.hits)
    fits = fits and row[2]
    rows[member.first + i] = row
  end
  if not fits and not alone then
    restore(mark)
    settle(member)
  end
  return fits
end

local function decide_group(members)
  undo = {}
  in_doubt = false
  if #members == 1 then
    decide_member(members[1])
    return
  end
  for _, member in ipairs(members) do
    in_doubt = in_doubt or member.can_refuse
  end
  local refused = false
  for _, member in ipairs(members) do
    local fits = decide_member(member)
    refused = refused or (member.can_refuse and not fits)
  end
  if refused then
    in_doubt = false
    restore(0)
    for _, member in ipairs(members) do
      settle(member)
    end
  end
end

local function read_item(at)
  local item = {}
  local number, flags
  item.bucket, number, flags, item.L, item.W, item.B, at = unpack_struct('>I2BBI4I6I4', request, at)
  item.algorithm = BY_NUMBER[number]
  item.count_denied = flags % 2 >= COUNT_DENIED
  item.post_paid = flags >= POST_PAID
  load(item.bucket, item.algorithm)
  return item, at
end

-- Reads the group at `at`; its members point at their rows. Says also whether all its buckets could be read.
local function read_group(at, n_rows)
  local n_members, n_items, votes
  local members, readable = {}, true
  n_members, at = unpack_struct('>I2', request, at)
  for m = 1, n_members do
    local member = { first = n_rows, items = {} }
    member.charge, member.hits, votes, n_items, at = unpack_struct('>BI7BI2', request, at)
    member.can_refuse = votes == 1 and member.charge == TAKE
    for i = 1, n_items do
      member.items[i], at = read_item(at)
      readable = readable and not errors[member.items[i].bucket]
    end
    n_rows = n_rows + n_items
    members[m] = member
  end
  return members, readable, at, n_rows
end

local at, n_rows = 1, 0
while at <= #request do
  local members, readable, first_row = nil, nil, n_rows
  members, readable, at, n_rows = read_group(at, n_rows)
  if readable then
    decide_group(members)
  else
    for row = first_row + 1, n_rows do
      rows[row] = false
    end
  end
end

for bucket, algorithm in pairs(stores) do
  local state = states[bucket]
  if state ~= originals[bucket] then
    local px = string.format('%.0f', math.ceil(state.ttl / 1000) + GRACE_MS + jitter_ms)
    local ok, problem = pcall(algorithm.store, KEYS[bucket], state, px)
    if not ok then
      errors[bucket] = type(problem) == 'table' and problem.err or tostring(problem)
    end
  end
end

local answer, problem = {}, nil
for _, text in pairs(errors) do
  problem = text
end
for i = 1, n_rows do
  local row = rows[i]
  if row and not errors[row[1]] then
    local flags = (row[2] and 1 or 0) + (row[8] and 2 or 0)
    answer[i] = pack('>BI7I7I7I7I7', flags, row[3], row[4], row[5], row[6], row[7])
  else
    answer[i] = pack('>BI7I7I7I7I7', FAILED, 0, 0, 0, 0, 0)
  end
end
return { table.concat(answer), problem }
