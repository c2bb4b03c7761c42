-- Decides groups of charges, each all or nothing. Twin: src/algorithm/group.rs.
-- The packed charges: for each group its number of members; for each member its kind of charge, hits, vote and
-- number of items; for each item its bucket, algorithm, flags (1 count_denied, 2 post-paid), L, W, B. The
-- answer: for each group a packed row per item, as in `single.lua`, or `!` and the error that a bucket met.

-- By bucket: what it holds (false: nothing), what it held, its algorithm, and the error that it met.
local states, originals, kinds, errors = {}, {}, {}, {}
-- By state: for how long it must be kept.
local ttls = {}
-- By item, in order: {bucket, allowed, remaining, wait, reset, before, after, written}.
local rows = {}

local function apply(item, charge, hits)
  local bucket = item.bucket
  local state, allowed, remaining, wait, reset, before, after =
    kinds[bucket][1](states[bucket], item.L, item.W, item.B, item.count_denied, charge, hits, now)
  local written = state ~= states[bucket]
  if written then
    states[bucket] = state
    ttls[state] = state.ttl or reset
  end
  return { bucket, allowed, remaining, wait, reset, before, after, written }
end

-- What buckets held before the charges that may have to be undone: {bucket, state}, in order.
local undo = {}
-- Whether a later member may undo everything.
local in_doubt = false

local function remember(bucket)
  undo[#undo + 1] = { bucket, states[bucket] }
end

-- Undoes all but the first `mark` charges.
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
    local charge, hits = member.charge, member.hits
    local spent = item.post_paid or (not verdict[2] and item.count_denied)
    if charge == TAKE and not spent then
      charge, hits = PEEK, 0
    end
    if in_doubt then
      remember(item.bucket)
    end
    local result = apply(item, charge, hits)
    local recorded = charge ~= PEEK and not result[2]
    if verdict[2] then
      result[4] = NONE
    elseif not recorded then
      result[4] = verdict[4]
    end
    result[2] = verdict[2]
    -- A peek that set a clock back is not undone.
    result[8] = result[8] or (member.charge == PEEK and verdict[8])
    rows[member.first + i] = result
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
    local result = apply(item, member.charge, member.hits)
    fits = fits and result[2]
    rows[member.first + i] = result
  end
  if not fits and not alone then
    restore(mark)
    settle(member)
  end
  return fits
end

local function decide_group(members)
  undo, in_doubt = {}, false
  if #members > 1 then
    for _, member in ipairs(members) do
      in_doubt = in_doubt or member.can_refuse
    end
  end
  local refused = false
  for _, member in ipairs(members) do
    local fits = decide_member(member)
    refused = refused or (member.can_refuse and not fits)
  end
  if refused and #members > 1 then
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
  item.count_denied = flags % 2 == 1
  item.post_paid = flags >= 2
  if kinds[item.bucket] == nil then
    local kind = algorithms[number]
    local state = load(KEYS[item.bucket], kind)
    if state and state.err then
      errors[item.bucket] = state.err
    end
    states[item.bucket], originals[item.bucket], kinds[item.bucket] = state, state, kind
  end
  return item, at
end

local function read_member(at, first)
  local member = { first = first, items = {} }
  local vote, n_items
  member.charge, member.hits, vote, n_items, at = unpack_struct('>BI7BI2', request, at)
  member.can_refuse = vote == 1 and member.charge == TAKE
  for i = 1, n_items do
    member.items[i], at = read_item(at)
  end
  return member, at
end

-- The error of a group, if one of its buckets met one.
local function problem_of(members)
  for _, member in ipairs(members) do
    for _, item in ipairs(member.items) do
      if errors[item.bucket] then
        return errors[item.bucket]
      end
    end
  end
end

local groups, n_rows, at = {}, 0, 1
while at <= #request do
  local members, n_members = {}, nil
  n_members, at = unpack_struct('>I2', request, at)
  for m = 1, n_members do
    members[m], at = read_member(at, n_rows)
    n_rows = n_rows + #members[m].items
  end
  groups[#groups + 1] = members
  -- Nothing is consumed of a group that cannot be decided as a whole.
  if not problem_of(members) then
    decide_group(members)
  end
end

for bucket = 1, #KEYS do
  local state = states[bucket]
  if state ~= originals[bucket] then
    errors[bucket] = store(KEYS[bucket], kinds[bucket], state, ttls[state])
  end
end

local function packed(members)
  local text = ''
  for _, member in ipairs(members) do
    for i = member.first + 1, member.first + #member.items do
      local _, allowed, remaining, wait, reset, before, after, written = unpack(rows[i])
      local flags = (allowed and 1 or 0) + (written and 2 or 0)
      text = text .. pack('>BI7I7I7I7I7', flags, remaining, min(wait, NONE), min(reset, MAX), before, after)
    end
  end
  return text
end

local answer = {}
for g, members in ipairs(groups) do
  local problem = problem_of(members)
  answer[g] = problem and '!' .. problem or packed(members)
end
return answer
