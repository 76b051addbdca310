import type { SiteSplit } from '../../engine/algorithms/site-share.ts';
import type { PackedDomain, PackedRules } from '../../engine/rules/compile/packed.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { type CandidateFeed, ReceivedCandidate } from '../../operate/candidate/feed.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { RulesMessage } from './messages.ts';

/** The number of pieces of rules per message: about 256 rules. */
const MESSAGE_PIECES = 8;

/** The messages that send the rules in force to a worker. */
export function* messagesOf(packed: PackedRules | undefined): Generator<RulesMessage> {
  for (const { name, spend, hash, pieces } of packed ?? []) {
    for (let at = 0; at === 0 || at < pieces.length; at += MESSAGE_PIECES) {
      yield { kind: 'rules_part', part: { name, spend, hash, pieces: pieces.slice(at, at + MESSAGE_PIECES) } };
    }
  }
  yield { kind: 'rules_end', areLoaded: packed !== undefined };
}

/** The rules of a worker, received from the primary process, which alone reads files or connects to a control plane. */
export interface ReceivedRules {
  readonly book: RuleBook;
  /** The candidate: rules that are evaluated in addition to those in force. */
  readonly candidate: CandidateFeed;
  receive(message: RulesMessage): void;
  receiveCandidate(message: RulesMessage): void;
  /** Resolves when the first rules have been received: a worker must not listen without the rules in force. */
  readonly arrived: Promise<void>;
}

/** @param split  for limits that sites share */
export function receiveRules(log: Logger, split?: SiteSplit): ReceivedRules {
  const inForce = new RulesInForce(split);
  const candidate = new ReceivedCandidate();
  let last: Promise<void> = Promise.resolve();
  let arrive = (): void => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const put = async (packed: PackedRules | undefined): Promise<void> => {
    if (packed) {
      const { rules } = await inForce.replace(packed);
      log.debug(`received ${rules.length} rules from the primary process`);
    }
    arrive();
  };
  const book: RuleBook = {
    rules: () => inForce.tree,
    packed: () => inForce.packed,
    onChange: (listener) => inForce.onChange(listener),
    close: () => {},
  };
  return {
    ...{ book, arrived, candidate },
    receive: receiver((packed) => {
      last = last.then(() => put(packed));
    }),
    receiveCandidate: receiver((packed) => candidate.put(packed)),
  };
}

/** Joins the parts of rules. @param onEnd  called with all of them at the end; undefined: none are loaded */
function receiver(onEnd: (packed: PackedRules | undefined) => void): (message: RulesMessage) => void {
  let parts: PackedDomain[] = [];
  return (message) => {
    if (message.kind === 'rules_part') {
      parts.push(message.part);
      return;
    }
    const packed = message.areLoaded ? joined(parts) : undefined;
    parts = [];
    onEnd(packed);
  };
}

/** Joins the parts of each domain. */
function joined(parts: readonly PackedDomain[]): PackedRules {
  const domains = new Map<string, Omit<PackedDomain, 'name' | 'pieces'> & { readonly pieces: string[] }>();
  for (const { name, spend, hash, pieces } of parts) {
    const domain = domains.get(name) ?? { spend, hash, pieces: [] };
    domains.set(name, domain);
    domain.pieces.push(...pieces);
  }
  return Array.from(domains, ([name, domain]) => ({ name, ...domain }));
}
