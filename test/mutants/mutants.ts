/** A text that occurs once in a file, and the text that replaces it. */
export type Change = readonly [from: string, to: string];

/** Defects written by hand: each change of the file must make one of the tests fail. */
export interface Mutants {
  readonly file: string;
  /** Paths without `.test.ts`, of tests that need no server but Redis. */
  readonly tests: readonly string[];
  /** A pattern of the names of those that run; default: all. */
  readonly only?: string;
  readonly changes: readonly Change[];
}

/** @throws Error  the text to be replaced does not occur exactly once */
export function applyChange(text: string, [from, to]: Change): string {
  const [before = '', after, ...more] = text.split(from);
  if (after === undefined || more.length > 0)
    throw new Error(
      `a changed text must occur once, got ${more.length + (after === undefined ? 0 : 1)} times: ${from}`,
    );
  return `${before}${to}${after}`;
}

const twins = 'test/parts/redis/requests';
const windowCounts = 'test/parts/redis/window-counts';
const sharedTwins = 'test/parts/fair-shares/stores';
const operations = 'test/parts/redis/operations';
const decide = 'test/engine/decide/decide';

/** Defects of a compiled step, which must be found in memory and in Redis. @param limit  a name in compiled.test.ts */
const compiled = (file: string, limit: string, changes: readonly Change[]): readonly Mutants[] =>
  ['memory', 'Redis'].map((store) => ({
    file: `src/${file.startsWith('parts/') ? file : `engine/${file}`}.ts`,
    tests: ['test/engine/lua/compiled'],
    only: `${limit} in ${store}`,
    changes,
  }));

const steps: readonly Mutants[] = [
  ...compiled('algorithms/sliding-window-log', 'a log of refusals', [
    ['(list[dropped] ?? 0) + limit.windowMs <= nowMs', '(list[dropped] ?? 0) + limit.windowMs < nowMs'],
    ['charge && (accepted || limit.countsRefusals === 1)', 'charge && accepted'],
    ['Math.min(log[at + 1] ?? 0, hits)', 'hits'],
  ]),
  ...compiled('algorithms/bucket', 'a leaky bucket', [
    ['refilledAtMs, nowMs) <= limit.maxDelayMs', 'refilledAtMs, nowMs) < limit.maxDelayMs'],
    ['Math.max(hits * limit.windowMs - refilledMs * limit.requestsPerUnit, 0)', 'hits * limit.windowMs'],
    ['Math.max(tickedAtMs, refilledAtMs)];', 'tickedAtMs];'],
    ['(required - limit.size) * limit.windowMs', '(hits - limit.size) * limit.windowMs'],
  ]),
  ...compiled('algorithms/sliding-window-counter', 'a counter that rounds up', [
    ['limit.roundsUp === 1 && rest > 0 ? whole + 1 : whole', 'whole'],
    ['chargedAtMs >= startMs - limit.windowMs', 'chargedAtMs > startMs'],
  ]),
  ...compiled('algorithms/sliding-window-buckets', 'parts', [
    ['(limit.buckets + 2 - at)', '(limit.buckets + 1 - at)'],
    ['Math.min(parts[at] ?? 0, hits)', 'hits'],
  ]),
  ...compiled('algorithms/window', 'parts with an anchor', [['(atMs + phaseMs) % windowMs', 'atMs % windowMs']]),
  ...compiled('algorithms/fixed-window', 'a fixed window', [
    ['hits < 0 || after <= limit.capacity', 'hits < 0 || after < limit.capacity'],
    ['windowStartAt(limit, known, Math.max(nowMs, known));', 'windowStartAt(limit, known, nowMs);'],
  ]),
  ...compiled('algorithms/fixed-window', 'a calendar', [
    ['if (startMs === limit.boundaries[1]) return limit.boundaries[2] ?? 0;', 'return startMs;'],
  ]),
  ...compiled('parts/reservations/reservation', 'reservations that lapse into a log', [
    ['event === REPEATED ? 0 : Math.min(used, most)', 'Math.min(used, most)'],
    ['untilMs <= nowMs ? LATE : COMMITTED', 'untilMs < nowMs ? LATE : COMMITTED'],
    ['limit.clips === 1 && isReserved ? reserved : used', 'used'],
    ['lapsed > 0 && charge === false ? copyOf(limit, list, nowMs) : list', 'list'],
  ]),
  ...compiled('parts/adaptive/adaptive', 'adaptive slots that children share', [
    ['(limit.holder === ANONYMOUS ? -1 : -MAX_COUNT)', '-1'],
    ['next.accepted || report[6] === CEILING', 'next.accepted'],
  ]),
  ...compiled('parts/adaptive/estimate', 'by hold times', [
    ['if (isUsed) estimate.age++;', ''],
    ['whole * Math.max(0.5, 1 - failed)', 'whole * 0.5'],
  ]),
  ...compiled('parts/penalty/penalty', 'a growing penalty of a log', [
    ['nowMs < list.untilMs + limit.forgivenMs', 'nowMs < list.untilMs'],
    ['list.lengthMs = Math.min(lengthMs, limit.longestMs);', 'list.lengthMs = lengthMs;'],
    ["charge !== 'regardless' || !accepted", '!accepted'],
  ]),
  ...compiled('parts/penalty/penalty', 'a prolonged penalty of a bucket', [
    ['if (limit.prolongs === 1) list.untilMs', 'list.lengthMs'],
  ]),
  ...compiled('holds/allocation', 'an allocation', [
    ['before + hitsToFit(hits) <= limit.size', 'before <= limit.size'],
  ]),
  ...compiled('holds/in-flight', 'requests in flight', [
    ['(list[live + 2] ?? 0) <= nowMs', '(list[live + 2] ?? 0) < nowMs'],
    ['hits < 0 || requested <= own', 'hits < 0'],
    ['Math.max(untilMs, holds[place + 2] ?? 0)', 'untilMs'],
  ]),
  ...compiled('parts/fair-shares/processor-sharing', 'a shared rate', [
    ['lastMs >= startMs - limit.windowMs ? node[CLAIMS] : 0', 'node[CLAIMS]'],
    ['if (node[CLAIMED_IN] === window - 1) parent', 'parent'],
    ['nodes !== undefined && isKept ? nodes', 'nodes !== undefined ? nodes'],
    ['Math.ceil(sinceMs * level.perMs)', 'Math.ceil(sinceMs * limit.rate)'],
  ]),
  ...compiled('parts/sites/site-share', 'a site of a', [
    ['Math.min(Math.max(table[row + 1] ?? 0, taken), table[row] ?? 0)', 'Math.max(table[row + 1] ?? 0, taken)'],
    ['slotMs === lastMs + SLOT_MS ? (state[4] ?? 0) : 0', 'state[4] ?? 0'],
  ]),
  ...compiled('holds/hold-list', 'requests in flight', [
    ['place > holds.live && (holds[place - size + 2] ?? 0) > untilMs', 'place < 0'],
  ]),
  ...compiled('parts/fair-shares/slot-share', 'shared slots', [
    ['holds[mark + 3] === parent.id && ', ''],
    ['reason === CEILING ? 1 : 0', '0'],
  ]),
];

const algorithms: readonly Mutants[] = [
  {
    file: 'src/engine/algorithms/fixed-window.ts',
    tests: ['test/engine/algorithms/fixed-window', 'test/engine/algorithms/refund', 'test/engine/ledger/refusals'],
    changes: [
      ['hits < 0 || after <= limit.capacity', 'hits < 0 || after < limit.capacity'],
      ['chargedAtMs >= startMs ? -hits : 0', '-hits'],
      ['hits <= 1 && windowSize(limit) > 0', 'hits <= 2 && windowSize(limit) > 0'],
    ],
  },
  {
    file: 'src/engine/algorithms/bucket.ts',
    tests: ['test/engine/ledger/refusals'],
    changes: [['Math.ceil((hits * limit.windowMs) / (limit.requestsPerUnit * tickMs)) * tickMs', '0']],
  },
  {
    file: 'src/engine/algorithms/bucket.ts',
    tests: ['test/engine/ledger/debts'],
    changes: [['burst: Math.floor(burst / by)', 'burst: Math.ceil(burst / by)']],
  },
  {
    file: 'src/engine/algorithms/bucket.ts',
    tests: [decide],
    changes: [['outcome.accepted && taken > 0 ? waitMs(limit, excess, sinceMs, nowMs) : 0', '0']],
  },
  {
    file: 'src/engine/algorithms/limit.ts',
    tests: ['test/engine/ledger/refusals'],
    changes: [['hits <= 1 && decision.retryAfterMs !== NEVER_MS', 'decision.retryAfterMs !== NEVER_MS']],
  },
];

const scripts: readonly Mutants[] = [
  {
    file: 'src/parts/reservations/reservation.ts',
    tests: ['test/parts/reservations/reservation'],
    changes: [['else low = middle + 1;', 'else low = end;']],
  },
  {
    file: 'src/parts/fair-shares/slot-share.ts',
    tests: ['test/parts/fair-shares/slot-share'],
    changes: [
      ['(waiting.count > 0 || room < wanted) &&', ''],
      ['borrowed * (level.weight + waiting.weights) >= level.weight * whole', 'false'],
      ['else if (held < thresholdSlots(slots, threshold))', 'else'],
      ['if (isWaiting) return;', 'if (!isWaiting) return;'],
    ],
  },
  {
    file: 'src/parts/redis/scripts/requests.ts',
    tests: [sharedTwins],
    only: 'Redis decides as memory',
    changes: [
      ['[...unpack(hash.nodes[name] as ShareNode)] as ShareNode', 'hash.nodes[name] as ShareNode'],
      ['if (isReset) cursor = reset + resetAt.size;', ''],
    ],
  },
  {
    file: 'src/parts/redis/scripts/nodes.ts',
    tests: [sharedTwins],
    changes: [
      ['node[LEAF_NUMBERS] === 0 && name !== LIMIT_FIELD', 'node[LEAF_NUMBERS] === 0'],
      ['if (node[0] !== 0) {', 'if (name !== undefined) {'],
    ],
  },
  {
    file: 'src/engine/ledger/failure-policies.ts',
    tests: ['test/parts/fair-shares/read-share'],
    only: 'give back',
    changes: [[' && !debit.share', '']],
  },
  {
    file: 'src/parts/lab/counters/shared-children.ts',
    tests: ['test/operate/admin/shares'],
    changes: [
      ['borrowed > 0 ? 0 : ', ''],
      ['value === own?.value ? [] : ', ''],
    ],
  },
  {
    file: 'src/parts/lab/counters/counter-state.ts',
    tests: ['test/operate/admin/shares'],
    changes: [['!own && unspent > 0', 'unspent > 0']],
  },
  {
    file: 'src/parts/fair-shares/fair-share.ts',
    tests: ['test/parts/candidate/trial'],
    only: 'changed share',
    changes: [['refillMs: rememberedMs,', '']],
  },
  {
    file: 'src/engine/rules/match/match.ts',
    tests: ['test/parts/replay/shares'],
    only: 'replay says',
    changes: [['children ? [...entries, ...children] : entries', 'entries']],
  },
  {
    file: 'src/parts/redis/scripts/dispatcher.ts',
    tests: [operations],
    only: 'settlement|concurrent requests .* by fixed_window',
    changes: [
      ['settlement <= (tonumber(', 'settlement < (tonumber('],
      ['stored[key - 1] = writeState(', 'writeState('],
    ],
  },
  {
    file: 'src/parts/redis/scripts/counters.ts',
    tests: ['test/parts/redis/backend'],
    changes: [['number % 1 !== 0 ||', '']],
  },
  {
    file: 'src/parts/redis/scripts/counters.ts',
    tests: [windowCounts],
    changes: [
      ['if (leftMs === -1)', 'if (leftMs === -9)'],
      ["call('SET', key, text, 'KEEPTTL')", "call('SET', key, text)"],
    ],
  },
  {
    file: 'src/parts/redis/window-counts.ts',
    tests: [windowCounts],
    changes: [
      ['if (before === 0) this.#expire(key, limit, endMs, slot);', ''],
      ['before === 0 ? !wasSet : leftMs < 0', 'before === 0 && !wasSet'],
      ['if (!instead && !isFirstHit(limit)) this.#know(key, endMs);', ''],
    ],
  },
  {
    file: 'src/parts/redis/scripts/requests.ts',
    tests: [operations],
    only: 'by fixed_window|of fixed_window',
    changes: [['hit.resetMs <= resetAtMs', 'hit.resetMs < resetAtMs']],
  },
  {
    file: 'src/engine/backends/requests.ts',
    tests: [twins],
    only: 'rounds of batches',
    changes: [
      [' || !(mayCharge || hit.marksRefusal)', ''],
      ['(hit.blocks && !next.accepted)', '!next.accepted'],
      ['store.restore();', ''],
      ['counter.asked = counter.asked + hit.hits', 'counter.asked = hit.hits'],
      ["kind === 'refund' ? !store.isNew(hit) : ", ''],
      ['- Math.ceil(Math.abs(held - heldIn(store, hit)) / hit.held.unit)', ''],
    ],
  },
  {
    file: 'src/parts/redis/scripts/requests.ts',
    tests: [twins],
    only: 'rounds of batches',
    changes: [['counter.state = packed === false ? undefined : unpackNumbers(packed);', '']],
  },
  {
    file: 'src/parts/quotas/redis-shares.ts',
    tests: ['test/parts/quotas/share-store'],
    changes: [
      ['if pool ~= ARGV[1] then', 'if not ARGV[1] then'],
      ['[state, ttlMs] = [step.state, step.ttlMs];', '[state, ttlMs] = [state, step.ttlMs];'],
    ],
  },
];

const stores: readonly Mutants[] = [
  {
    file: 'src/parts/redis/batch.ts',
    tests: ['test/parts/redis/batch'],
    changes: [
      ['    this.#spent[key] = CLOSED;\n', ''],
      ['  spend.hits === operation.hits &&\n', ''],
    ],
  },
  {
    file: 'src/parts/redis/batch-reply.ts',
    tests: [operations],
    only: 'of token_bucket|a receipt has',
    changes: [
      ["kind === 'charge' ? 'regardless' : charged", 'charged'],
      ['receipts ? own.map((reply) => withTime(reply, nowMs)) : own', 'own'],
    ],
  },
  {
    file: 'src/parts/redis/batcher.ts',
    tests: ['test/parts/redis/batcher'],
    changes: [
      ['callsBefore === 0', 'callsBefore >= 0'],
      ['(hits > MAX_HITS ||', '(hits > 2 * MAX_HITS ||'],
      ['if (stoodMs < waitedMs * LATE_SHARE) return', 'return'],
      ['!isAnswer(error) && !isUnsent(error)', '!isAnswer(error)'],
      ['unavailable(reason), isSent)', 'unavailable(reason))'],
    ],
  },
  {
    file: 'src/parts/redis/backend.ts',
    tests: ['test/parts/redis/backend', 'test/parts/redis/clock-steps'],
    changes: [
      ['      this.#listener?.missed();\n    }\n    if (hasStepped ||', '    }\n    if (hasStepped ||'],
      ['if (!isNoScript(error)) throw error;', 'throw error;'],
    ],
  },
  {
    file: 'src/parts/redis/breaker.ts',
    tests: ['test/parts/redis/breaker'],
    changes: [
      ['if (this.#timesOpened > 0 && !this.#isProbing) return;', ''],
      ['Math.min(FIRST_OPEN_MS * 2 ** this.#timesOpened, LONGEST_OPEN_MS)', 'FIRST_OPEN_MS * 2 ** this.#timesOpened'],
    ],
  },
  {
    file: 'src/engine/backends/steps.ts',
    tests: [operations],
    only: 'of fixed_window|all its hits together',
    changes: [['chargedAtMs <= counters.resetAtMs(key) ? 0 : hits', 'hits']],
  },
  {
    file: 'src/engine/backends/memory/bounded-counters.ts',
    tests: ['test/engine/backends/memory/bounded-counters'],
    changes: [['if (slot < last) this.#index.add(this.#slots.keyAt(slot), slot);', '']],
  },
];

const ledger: readonly Mutants[] = [
  {
    file: 'src/engine/ledger/ledger.ts',
    tests: ['ledger', 'overload', 'refusals', 'debts'].map((name) => `test/engine/ledger/${name}`),
    changes: [
      ['known.some((decision, at) => decision && request[at]?.blocks)', 'known.some((decision) => decision)'],
      ['if (!receipt.redeem()) return;', ''],
      ['for (const one of this.#kept) one.drop(key);', 'this.#remembered?.drop(key);'],
      ["if (isDone) this.#backends.publish('changed', operation);", ''],
      ['request.some((other) => other !== debit && other.key === debit.key)', 'false'],
      ['this.#debts && how.timeoutMs <= 0', 'this.#debts && how.timeoutMs < 0'],
      ['isUnknown(replies[at]) ? reply : withReceipt', 'withReceipt'],
    ],
  },
  {
    file: 'src/engine/ledger/refusals.ts',
    tests: ['test/engine/ledger/refusals', 'test/engine/ledger/ledger'],
    changes: [
      ['known.untilMs <= nowMs', 'known.untilMs < nowMs'],
      ['hits === 0 && !known.isAbove', 'hits === 0'],
      ['this.#allChangedAtMs) >= calledAtMs', 'this.#allChangedAtMs) > calledAtMs'],
      [" || policy.charge === 'always'", ''],
      ['Math.min(singleAtMs + moreMs, Math.max(resetAtMs, singleAtMs))', 'singleAtMs + moreMs'],
    ],
  },
  {
    file: 'src/engine/ledger/debts.ts',
    tests: ['test/engine/ledger/debts', 'test/engine/ledger/overload'],
    changes: [
      ['refused || isUnknown(at) ||', 'refused ||'],
      ['Math.min(unsettled, debit.hits)', 'debit.hits'],
      ['mustPeek && !(await this.#peek(shard))', 'false'],
      ['shard.number = ++this.#lastNumber', 'shard.number = this.#lastNumber'],
    ],
  },
  {
    file: 'src/parts/leases/leases.ts',
    tests: ['test/parts/leases/leases', 'test/engine/ledger/ledger'],
    changes: [
      ['lease.expiresAtMs <= nowMs || lease.left < hits', 'lease.left < hits'],
      ['Math.min(perMs * LEASE_MS, rest * SHARE_OF_REST)', 'rest * SHARE_OF_REST'],
      ['if (left > 0) this.#refund(debit, left, chargedAtMs);', ''],
      ['this.#context.isLive() && !lease.isEnded ?', '!lease.isEnded ?'],
    ],
  },
  {
    file: 'src/engine/ledger/failure-policies.ts',
    tests: ['test/engine/ledger/debts', 'test/engine/ledger/overload'],
    changes: [
      ["policy.onOverload !== 'error' && isRateLimit(limit)", "policy.onOverload !== 'error'"],
      ['if (!isDone && isKept) this.#options.debts.giveBack(debit, false);', ''],
    ],
  },
  {
    file: 'src/parts/reservations/pending-commits.ts',
    tests: ['test/parts/reservations/pending-commits'],
    changes: [
      ['!commits || holder === ANONYMOUS', 'holder === ANONYMOUS'],
      ['if (this.#line.delete(commit)) this.#bytes -=', 'if (this.#line.delete(commit)) this.#bytes +='],
    ],
  },
];

const decisions: readonly Mutants[] = [
  {
    file: 'src/engine/decide/decide.ts',
    tests: [decide, 'test/parts/holds/waiting', 'test/parts/holds/deadlines'],
    changes: [
      ['quotas > 0 && overQuotas === quotas', 'overQuotas > 0'],
      ['if (!policy.shadow) delayMs =', 'delayMs ='],
    ],
  },
  {
    file: 'src/engine/decide/plan.ts',
    tests: [
      ...[decide, 'test/parts/holds/waiting', 'test/engine/decide/plan', 'test/engine/decide/unmet'],
      ...['test/parts/holds/slots', 'test/parts/holds/reservations', 'test/parts/kuadrant/kuadrant'],
    ],
    changes: [
      ['!policy.shadow && !planner.shadowMode &&', '!planner.shadowMode &&'],
      ['&& !policy.quota && !planning.quotaMode', '&& !planning.quotaMode'],
      ['capDelay(limit, maxHoldMs)', 'limit'],
      ['if (children) debit =', "if (children && door.hits !== 'reported') debit ="],
      ['if (!usesLimit(door, found, one)) continue;', ''],
      ['planner.quotaMode && unmet?.onlyAt === undefined', 'planner.quotaMode'],
      ['limitsInFlight(limit) ? 1 : debit.hits', 'debit.hits'],
      ["door.hits === 'returned' ? -asked : asked", 'asked'],
    ],
  },
  {
    file: 'src/parts/penalty/penalty.ts',
    tests: ['test/parts/penalty/penalty'],
    changes: [
      ['const isBlocked = nowMs < list.untilMs;', 'const isBlocked = nowMs <= list.untilMs;'],
      ['blocks: true,', ''],
      ['next.accepted || limit.watches === 1', 'next.accepted'],
    ],
  },
  {
    file: 'src/parts/penalty/read-penalty.ts',
    tests: ['test/parts/penalty/penalty'],
    only: 'are accepted',
    changes: [['ms >= leastMs', 'ms > leastMs']],
  },
  {
    file: 'src/engine/decide/outcomes.ts',
    tests: ['test/engine/decide/outcomes'],
    changes: [
      ['hits >= first && hits <= last', 'hits >= first'],
      ["kind: 'peek'", "kind: 'spend'"],
      ['if (commits) return { hits: isCounted ? 1 : 0 };', 'if (commits) return { hits: 1 };'],
    ],
  },
  {
    file: 'src/parts/holds/slots.ts',
    tests: ['test/engine/decide/plan', 'test/parts/holds/slots'],
    changes: [["if (answer.overallCode === 'OVER_LIMIT')", "if (ledger.atomic === 'counter')"]],
  },
  {
    file: 'src/engine/decide/unmet.ts',
    tests: ['test/engine/decide/unmet'],
    changes: [
      ['Math.max(hits, 1)', 'hits'],
      ['hits < 0) ||', 'hits <= 0) ||'],
      ['counted[at < 0 ? counted.length : at]', 'counted[Math.max(at, 0)]'],
    ],
  },
  {
    file: 'src/engine/rules/match/required-keys.ts',
    tests: ['test/engine/decide/unmet'],
    changes: [
      ["bit === undefined || value === ''", 'bit === undefined'],
      ['(carried & bits) === bits', '(carried & bits) !== 0'],
    ],
  },
  {
    file: 'src/engine/decide/retry.ts',
    tests: ['test/engine/decide/retry'],
    changes: [
      ['Math.min(quotasMs ?? quotaMs, quotaMs)', 'Math.max(quotasMs ?? quotaMs, quotaMs)'],
      ['if (policy.shadow) continue;', ''],
      ['together + hits;', 'hits;'],
    ],
  },
  {
    file: 'src/engine/decide/overrides.ts',
    tests: [decide],
    changes: [['=> override.untilMs > nowMs;', '=> override.untilMs > 0;']],
  },
  {
    file: 'src/parts/kuadrant/plain-charges.ts',
    tests: ['test/parts/kuadrant/plain-charges'],
    changes: [['own.uncharged = []; // concurrent repetitions do not charge these', '']],
  },
  {
    file: 'src/parts/holds/queues.ts',
    tests: ['test/parts/holds/slots'],
    changes: [["if (waiter.outcome === 'not_taken' && isTaken) await turn.drop();\n      else if", 'if']],
  },
  {
    file: 'src/edge/wire/codec.ts',
    tests: ['test/edge/wire/codec'],
    changes: [['is_negative_hits ? 0 - hits : hits', 'hits']],
  },
  {
    file: 'src/engine/decide/shown.ts',
    tests: ['test/edge/wire/codec'],
    changes: [['Math.ceil(ms / 1000)', 'Math.floor(ms / 1000)']],
  },
];

const rules: readonly Mutants[] = [
  {
    file: 'src/engine/rules/match/match.ts',
    tests: ['test/engine/rules/match/match', decide],
    changes: [
      ['found.rank < other.rank', 'found.rank > other.rank'],
      ['value: counted }', 'value: entry.value }'],
      ['replaced.has(name))', 'replaced.has(name) || true)'],
    ],
  },
  {
    file: 'src/engine/rules/match/matchers.ts',
    tests: ['test/engine/rules/match/pattern', 'test/engine/rules/match/match'],
    changes: [['return from + this.#end.length <= text.length', 'return true']],
  },
  {
    file: 'src/engine/rules/match/trie.ts',
    tests: ['test/engine/rules/match/pattern-set'],
    changes: [['? (this.#ended[fallback] ?? NONE) : state', '? NONE : state']],
  },
  {
    file: 'src/parts/schedules/schedules.ts',
    tests: ['test/parts/schedules/schedule', 'test/parts/schedules/active-times'],
    changes: [
      ['nowMs >= this.#untilMs || nowMs < this.#fromMs', 'nowMs >= this.#untilMs'],
      ['fullCapacity(next.limit) > fullCapacity(current.limit)', 'false'],
    ],
  },
];

const server: readonly Mutants[] = [
  {
    file: 'src/h2/grpc/call-head.ts',
    tests: ['test/h2/grpc/call-head'],
    changes: [['M: 60_000', 'M: 6_000']],
  },
  {
    file: 'src/h2/grpc/message-reader.ts',
    tests: ['test/h2/grpc/message-reader'],
    changes: [['if (length <= maxBytes) return length;', 'if (length < maxBytes) return length;']],
  },
  {
    file: 'src/h2/grpc/method-answer.ts',
    tests: ['test/edge/grpc/side-services'],
    changes: [['this.#unreadMessages >= maxUnreadMessages', 'this.#unreadMessages > maxUnreadMessages']],
  },
  {
    file: 'src/h2/grpc/unary-call.ts',
    tests: ['test/h2/grpc/unary-call'],
    changes: [
      ['elapsedMs > this.#head.timeoutMs || this.#isGone', 'this.#isGone'],
      ["missed(this.#isGone ? 'cancelled' : 'late', this);\n    if", "missed('late', this);\n    if"],
    ],
  },
  {
    file: 'src/h2/bounds/call-queue.ts',
    tests: ['test/h2/bounds/call-queue', 'test/h2/bounds/overloaded-queue'],
    changes: [
      ['!isInTime && !connection.hasMuchInput', '!isInTime'],
      ['call.dueAtMs < other.dueAtMs', 'call.dueAtMs > other.dueAtMs'],
      ['if (calls.length > 0) this.#turns.add(calls);', ''],
    ],
  },
  {
    file: 'src/h2/bounds/caller-memory.ts',
    tests: ['test/h2/bounds/caller-memory'],
    changes: [
      ['if (hasGrown && this.#bytes > this.maxBytes)', 'if (false)'],
      ['largest.sizeClass === 0', 'false'],
    ],
  },
  {
    file: 'src/h2/http2/request-frames.ts',
    tests: ['test/h2/http2/attacks'],
    only: 'cancelled calls|flow-control windows|a request',
    changes: [
      ['streams.slotsTaken >= this.#limits.maxConcurrentStreams', 'streams.slotsTaken > 100_000'],
      ['stream.receiveWindow < 0', 'false'],
      ['stream.bodyBytesLeft !== 0', 'stream.bodyBytesLeft > 0'],
    ],
  },
  {
    file: 'src/h2/http2/stream-table.ts',
    tests: ['test/h2/http2/attacks'],
    only: 'cancelled calls',
    changes: [['if (stream.isBusy) this.#cancelledBusy++;', 'if (stream.isBusy) return;']],
  },
  {
    file: 'src/h2/http2/send-queue.ts',
    tests: ['test/h2/http2/attacks'],
    only: 'flow-control windows',
    changes: [['if (this.#window > MAX_WINDOW) throw tooLarge();', '']],
  },
  {
    file: 'src/h2/http2/hpack/decoder.ts',
    tests: ['test/h2/http2/hpack'],
    changes: [
      ["if (!isFirst) throw broken('a table size update in the middle of a block');", ''],
      ['this.#evict(); // including', '// including'],
    ],
  },
  {
    file: 'src/h2/http2/hpack/huffman.ts',
    tests: ['test/h2/http2/hpack'],
    changes: [['{0,7}', '{0,8}']],
  },
];

const edges: readonly Mutants[] = [
  {
    file: 'src/edge/rls/service.ts',
    tests: ['test/edge/rls/holds'],
    changes: [['Math.min(answer.delayMs, timeoutMs - elapsedMs(call))', 'answer.delayMs']],
  },
  {
    file: 'src/edge/rls/batch.ts',
    tests: ['test/edge/rls/batch-messages'],
    changes: [['descriptors > maximumBatch.descriptors', 'descriptors >= maximumBatch.descriptors']],
  },
  {
    file: 'src/edge/rls/messages.ts',
    tests: ['test/edge/rls/messages'],
    changes: [
      ['index === maximumRequest.descriptors', 'index > maximumRequest.descriptors'],
      ['readRequestLimit(reader.length(), limit)', 'readRequestLimit(reader.length(), null)'],
    ],
  },
  {
    file: 'src/edge/rls/headers.ts',
    tests: ['test/edge/rls/headers', 'test/edge/rls/ietf-headers'],
    changes: [
      ['limitRemaining < fewest', 'limitRemaining <= fewest'],
      ['if (waitMs > 0) return undefined;', ''],
    ],
  },
  {
    file: 'src/edge/overload/overload.ts',
    tests: ['test/edge/overload/overload', 'test/edge/grpc/grpc-server'],
    changes: [['inFlight() < maxInFlight', 'inFlight() <= maxInFlight']],
  },
  {
    file: 'src/edge/http/cross-site.ts',
    tests: ['test/edge/http/cross-site'],
    changes: [["site !== 'same-origin' && site !== 'none'", "site === 'cross-site'"]],
  },
  {
    file: 'src/edge/http/connection.ts',
    tests: ['test/edge/http/bounds'],
    changes: [['>= this.#bounds.maxRequestsInFlight', '> 2 * this.#bounds.maxRequestsInFlight']],
  },
  {
    file: 'src/parts/xds/client.ts',
    tests: ['test/parts/xds/back-off', 'test/parts/xds/book'],
    changes: [
      ['2 ** (failures - 1)', '2 ** failures'],
      ['if (times === 0) refuse();', 'if (times >= 0) refuse();'],
    ],
  },
  {
    file: 'src/parts/notify/webhook.ts',
    tests: ['test/parts/notify/webhook'],
    changes: [['Math.floor(nowMs / 1_000)', 'Math.floor(nowMs)']],
  },
  {
    file: 'src/parts/quotas/buckets.ts',
    tests: ['test/parts/quotas/demand', 'test/parts/quotas/buckets'],
    changes: [['elapsedMs < MIN_ELAPSED_MS', 'elapsedMs < 0']],
  },
];

const budget = 'test/engine/decide/budget';

const budgets: readonly Mutants[] = [
  {
    file: 'src/engine/algorithms/money.ts',
    tests: [budget],
    only: 'rules with budgets|what callers see',
    changes: [
      ['if (billionths % unit !== 0n)', 'if (billionths % unit < 0n)'],
      ['billionths / unit > BigInt(MAX_LIMIT)', 'billionths / unit > 2n * BigInt(MAX_LIMIT)'],
      ['replace(/0{1,7}$/', 'replace(/0{1,6}$/'],
      ['Math.floor(count / CENT)', 'Math.ceil(count / CENT)'],
    ],
  },
  {
    file: 'src/engine/decide/priced.ts',
    tests: [budget],
    only: 'counted in memory',
    changes: [
      ['counted.hits = capped(counted.hits + used)', 'counted.hits = capped(used)'],
      ['counted.cost = capped(counted.cost + used', 'counted.cost = capped(used'],
      ['found.id, found.entries]', 'found.id]'],
      ['counted: first ? { hits: 0, cost: 0 } : counted', 'counted'],
      ['Math.max(Math.min(amount, MAX_COUNT), -MAX_COUNT)', 'Math.max(amount, 0)'],
      ['priced?.isAdded ? ANONYMOUS : holder', 'holder'],
    ],
  },
  {
    file: 'src/engine/rules/compile/limits.ts',
    tests: [budget],
    only: 'rules with budgets',
    changes: [
      ['requestsPerUnit + soft > MAX_LIMIT', 'requestsPerUnit > MAX_LIMIT'],
      ["common.currency === undefined ? ''", "common.currency !== null ? ''"],
      ['most > MAX_UINT32 &&', 'most > 2 * MAX_UINT32 &&'],
    ],
  },
  {
    file: 'src/parts/reservations/read-reserve.ts',
    tests: [budget],
    only: 'rules with budgets',
    changes: [['money.currency === currency ? money.billionths', 'true ? money.billionths']],
  },
  {
    file: 'src/engine/rules/compile/node-rule.ts',
    tests: [budget],
    only: 'rules with budgets|counted in memory',
    changes: [
      ['currency !== cost.currency', 'currency === cost.currency'],
      ['{ ...own, isPart: true }', 'own'],
    ],
  },
  {
    file: 'src/edge/wire/codec.ts',
    tests: [budget],
    only: 'what callers see',
    changes: [['asInteger(limit, count, MAX_UINT32)', 'Math.min(count, MAX_UINT32)']],
  },
];

const guard: readonly Mutants[] = [
  {
    file: 'src/parts/guard/guard.ts',
    tests: ['test/parts/guard/guard'],
    changes: [
      ['(known.isOver && refused > known.leastRefused)', 'known.isOver'],
      ['if (!connected.has(address))', 'if (connected.size === 0)'],
      ['count < maxEntries', 'count <= maxEntries'],
    ],
  },
  {
    file: 'src/parts/guard/safety.ts',
    tests: ['test/parts/guard/guard'],
    changes: [
      ['const bits = Math.min(one.bits, other.bits);', 'const { bits } = one;'],
      ["'169.254.0.0/16', ", ''],
    ],
  },
  {
    file: 'src/parts/guard/peers.ts',
    tests: ['test/parts/guard/guard'],
    changes: [
      ['!COMPLETE.has(state) || ', ''],
      ['.swap32()', ''],
    ],
  },
];

export const mutants: readonly Mutants[] = [
  ...steps,
  steps,
  algorithms,
  budgets,
  scripts,
  stores,
  ledger,
  decisions,
  rules,
  server,
  edges,
  guard,
].flat();
