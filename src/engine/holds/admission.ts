/** What admission must know of the shared limit, or of a child on the path of the hits. */
export interface AdmissionLevel {
  /** Its reservation; 0 for none. */
  readonly reserve: number;
  /** What is left of its reservation, or of the limit. */
  left: number;
  /** What is left of its ceiling; Infinity if it has none. */
  ceilingLeft: number;
  /** Unspent reservations of its active children, except the one on the path. */
  held: number;
  /** Whether it has used its share of what its parent does not reserve. */
  isAhead: boolean;
  /** Whether its reservation covers the hits. Set by `judge`. */
  pays: boolean;
}

export type Judgement = readonly [reason: number, level: number];
export const ACCEPTED: Judgement = [0, 0];

/** Places in `shareReasons`. */
const EMPTY = 1;
const HELD = 2;
const PRIORITY = 3;
const SHARE = 4;
export const CEILING = 5;

/**
 * Decides a request for slots that children share; if it is refused, why, and at which level.
 *
 * @param levels  the limit, then the children on the path
 * @param floor   what the hits must leave to higher priorities
 */
export function judge(levels: readonly AdmissionLevel[], wanted: number, floor: number): Judgement {
  const count = levels.length;
  let isPaid = false;
  for (let at = count - 1; at > 0; at--) {
    const level = levels[at] as AdmissionLevel; // in range
    isPaid = level.reserve > 0 && level.left - wanted >= (isPaid ? 0 : level.held);
    level.pays = isPaid;
  }
  const whole = levels[0] as AdmissionLevel; // there always is a limit
  const room = whole.left - wanted;
  if (room < 0) return [EMPTY, 0];
  if (!isPaid && room < whole.held) return [HELD, 0];
  if (!isPaid && room < floor) return [PRIORITY, 0];
  for (let at = 1; at < count; at++) {
    const level = levels[at] as AdmissionLevel;
    if (level.isAhead && !level.pays) return [SHARE, at];
  }
  for (let at = 1; at < count; at++) {
    const level = levels[at] as AdmissionLevel;
    const isKept = at + 1 === count || !(levels[at + 1] as AdmissionLevel).pays;
    if (level.ceilingLeft < wanted + (isKept ? level.held : 0)) return [CEILING, at];
  }
  return ACCEPTED;
}

/** What the last child on the path may still use, without the test of its share. */
export function findRoom(levels: readonly AdmissionLevel[], floor: number): number {
  const count = levels.length;
  const whole = levels[0] as AdmissionLevel; // there always is a limit
  const left = whole.left;
  let room = Math.min(Math.max(left, 0), Math.max(unspent(levels), left - Math.max(whole.held, floor), 0));
  for (let at = 1; at < count; at++) room = Math.min(room, Math.max((levels[at] as AdmissionLevel).ceilingLeft, 0));
  return room;
}

/** What is left of the reservation of the last child on the path. */
export function unspent(levels: readonly AdmissionLevel[]): number {
  const last = levels[levels.length - 1] as AdmissionLevel;
  return levels.length > 1 && last.reserve > 0 ? Math.max(last.left, 0) : 0;
}
