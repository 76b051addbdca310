import type { Change } from '../../test/mutants/mutants.ts';

/** Defects of the code of a protocol, each of which its exploration must find. */
export interface ProtocolMutants {
  readonly protocol: string;
  readonly file: string;
  /** The number of steps after which all are found; default: that of the protocol. */
  readonly depth?: number;
  readonly changes: readonly Change[];
}

export const mutants: readonly ProtocolMutants[] = [
  {
    protocol: 'leases',
    file: 'src/parts/leases/leases.ts',
    changes: [
      ['lease.expiresAtMs <= nowMs || lease.left < hits', 'lease.left < hits'],
      ['lease.left -= hits;', ''],
      ['lease.left = block;', 'lease.left = 2 * block;'],
      ['hits: debit.hits + block, blocks: true', 'hits: block, blocks: true'],
      ['if (left > 0) this.#refund(debit, left, chargedAtMs);', ''],
    ],
  },
  {
    protocol: 'local',
    file: 'src/engine/ledger/debts.ts',
    changes: [
      ['refused || isUnknown(at) ||', 'refused ||'],
      ['for (const { debit } of shard.pending) debts.delete(debit.key);', ''],
      ['this.#addDebt(debit, debit.hits);', 'this.#addDebt(debit, 0);'],
      ['divide(limit, sharing)', 'divide(limit, 1)'],
    ],
  },
  {
    protocol: 'local',
    file: 'src/engine/ledger/failure-policies.ts',
    changes: [['isRefused, isUnknown: mayBeCounted }', 'isRefused, isUnknown: () => false }']],
  },
  {
    protocol: 'settlements',
    file: 'src/engine/ledger/debts.ts',
    changes: [
      ['if (!isSettled) return;', ''],
      ['if (shard.pending.length === 0) {', 'if (shard.pending.length >= 0) {'],
      ['number: shard.number, operations', 'number: ++this.#lastNumber, operations'],
    ],
  },
  {
    protocol: 'holds',
    file: 'src/engine/holds/in-flight.ts',
    changes: [
      ['before - own + requested <= limit.slots', 'before - own <= limit.slots'],
      ['if (hits < 0) release(holds, size, limit.holder, -hits);', ''],
      ['(isTaken || limit.holder === ANONYMOUS)', 'true'],
      [
        'if (limit.holder !== ANONYMOUS) return nowMs + limit.windowMs;',
        'if (limit.holder !== ANONYMOUS) return nowMs + limit.windowMs / 2;',
      ],
      ['      removeHold(holds, size, place);\n    }\n  }\n', '    }\n  }\n'],
      ['(list[live + 2] ?? 0) <= nowMs', '(list[live + 2] ?? 0) <= nowMs + 600'],
    ],
  },
  {
    protocol: 'reservations',
    file: 'src/parts/reservations/reservation.ts',
    changes: [
      ['event === REPEATED ? 0 : Math.min(used, most)', 'Math.min(used, most)'],
      ['add(own, limit.holder, 0, nowMs, nowMs, nowMs);', ''],
      ['own.held - ownHits + required', 'required'],
      ['Math.max(nowMs + limit.ttlMs, place', 'Math.max(nowMs + limit.ttlMs / 2, place'],
      ['if (place >= 0) remove(own, place, nowMs);\n    add(own, limit.holder, 0', 'add(own, limit.holder, 0'],
      ['(list[at + 1] ?? 0) > 0 && (list[at + 2] ?? 0) > nowMs', '(list[at + 1] ?? 0) > 0'],
      ['(list[at + 2] ?? 0) + limit.memoryMs > nowMs', 'false'],
    ],
  },
  {
    protocol: 'commits',
    file: 'src/parts/reservations/pending-commits.ts',
    changes: [
      ["if (replies[at]?.code !== 'UNAVAILABLE') {", 'if (replies[at]) {'],
      ['Math.max(limit.ttlMs - TIMEOUT_MS, limit.ttlMs / 2)', '2 * limit.ttlMs'],
      ['this.#line.add(commit);', ''],
    ],
  },
  {
    protocol: 'commits',
    file: 'src/engine/ledger/ledger.ts',
    changes: [['this.pendingCommits?.keep(request, replies, calledAtMs);', '']],
  },
  {
    protocol: 'invalidation',
    file: 'src/engine/ledger/ledger.ts',
    changes: [
      ['changed: (key) => this.#remembered?.drop(key),', 'changed: () => {},'],
      ["if (isDone) this.#backends.publish('changed', operation);", ''],
    ],
  },
  {
    protocol: 'invalidation',
    file: 'src/engine/ledger/refusals.ts',
    changes: [['sinceMs < UNCONFIRMED_MS || this.#options.isLive()', 'true']],
  },
  {
    protocol: 'invalidation',
    file: 'src/parts/redis/invalidations.ts',
    depth: 9,
    changes: [
      ['if (!wasLive) this.#listener.missed();', ''],
      ['this.#beatAtMs < BEAT_LOST_MS', 'this.#beatAtMs < 10 * BEAT_LOST_MS'],
    ],
  },
  {
    protocol: 'site-windows',
    file: 'src/parts/sites/site-share.ts',
    changes: [
      [
        'const more = Math.max((limit.moved[2] ?? 0) - (share.table[row + 2] ?? 0), 0);',
        'const more = limit.moved[2] ?? 0;',
      ],
      ['limit.moved[1] !== share.epochMs || skewMs > MAX_SKEW_MS', 'skewMs > MAX_SKEW_MS'],
      ['(roomOf(limit, share) - expectedUse(limit, share, nowMs)) / (limit.moved[3] ?? 1)', 'roomOf(limit, share) + 1'],
      ['required <= roomOf(limit, share) + limit.advance', 'required <= roomOf(limit, share) + 1'],
      ["charge === 'regardless' || (charge && accepted)", 'charge'],
      ['(table[at + 2] ?? 0) - (table[at] ?? 0);', 'table[at + 2] ?? 0;'],
    ],
  },
  {
    protocol: 'site-buckets',
    file: 'src/parts/sites/site-share.ts',
    changes: [['if (limit.bucket === 1) share.used += hits * limit.windowMs;', '']],
  },
  {
    protocol: 'shares',
    file: 'src/parts/quotas/shares.ts',
    changes: [
      ['? Math.max(now, earlier) : now', '? now : now'],
      ['endsAtMs: nowMs + terms.ttlMs + terms.transitMs,', 'endsAtMs: nowMs + terms.ttlMs / 2,'],
      ['isConfirmed && sent === holder.number', 'sent === holder.number'],
      ['- usedUnits - own, 0)', '- own, 0)'],
      ["pool.burst - sumInForce(others, nowMs, 'burst')", 'pool.burst'],
    ],
  },
  {
    protocol: 'shares',
    file: 'src/parts/quotas/buckets.ts',
    changes: [['assigned !== undefined && arrivedMs - assigned.atMs >= terms.transitMs', 'assigned !== undefined']],
  },
  {
    protocol: 'deferral',
    file: 'client/src/deferral/turns.ts',
    changes: [
      ['if (decision.ok) return;', 'return;'],
      ['if (waitMs !== 0)', 'if (waitMs === undefined)'],
    ],
  },
  {
    protocol: 'deferral',
    file: 'client/src/deferral/heads.ts',
    changes: [
      ["if (state === 'delayed') return this.wake(head);", ''],
      ['await this.#wakeFirst(line, await this.#lines.leave(line, id));', 'await this.#lines.leave(line, id);'],
      ['if (!hasEnded(state)) return false;', 'return false;'],
    ],
  },
  {
    protocol: 'candidate',
    file: 'src/parts/candidate/followed.ts',
    changes: [
      ['if (isClosed || !packed) return detach();', 'if (!packed) return detach();'],
      ['    observer.answered = answered;\n', ''],
      ['if (hash !== liveHash) trial?.beginAnew();', ''],
      ['last = last.then(follow).catch(onError);', 'last = follow().catch(onError);'],
      ['await ended?.close();', ''],
    ],
  },
  {
    protocol: 'windows',
    file: 'src/parts/redis/window-counts.ts',
    changes: [
      ["'PXAT', String(endMs), 'NX');\n    else if (!instead)", "'PXAT', String(endMs));\n    else if (!instead)"],
      ['const MIN_LEFT_MS = 100;', 'const MIN_LEFT_MS = 0;'],
      ['if (before === 0) this.#expire(key, limit, endMs, slot);', ''],
      ['for (const { key, limit } of windows) this.#doubt(key, limit, slot);', ''],
      ['if (leftMs === NO_EXPIRY) this.#expire', 'if (leftMs > 0) this.#expire'],
      ['if (before > 0 && knownMs > nowMs) return knownMs;', 'if (knownMs > nowMs) return knownMs;'],
      ['const before = Math.max(count - hits, 0);', 'const before = count;'],
    ],
  },
];
