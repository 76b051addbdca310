import { Later } from '../../base/later.ts';
import { counted } from '../../base/texts.ts';
import type { SiteSplit } from '../../engine/holds/claim.ts';
import type { PackedDomain, PackedRules } from '../../engine/rules/compile/packed.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { RulesMessage, SpreadMessage } from './messages.ts';

/** Packed rules that change. */
export type PackedSource = Pick<RuleBook, 'packed' | 'onChange'>;

/** The number of pieces of rules per message: about 256 rules. */
const MESSAGE_PIECES = 8;

/** The messages that send rules to deciders. */
export function* rulesMessages(packed: PackedRules | undefined): Generator<RulesMessage> {
  yield { kind: 'rules_begin' };
  for (const { name, spend, hash, pieces } of packed ?? []) {
    for (let at = 0; at === 0 || at < pieces.length; at += MESSAGE_PIECES) {
      yield { kind: 'rules_part', part: { name, spend, hash, pieces: pieces.slice(at, at + MESSAGE_PIECES) } };
    }
  }
  yield { kind: 'rules_end', areLoaded: packed !== undefined };
}

/** The last complete version of rules, and the messages of the next one so far. */
class KeptVersion {
  #complete: readonly RulesMessage[] = [];
  #next: RulesMessage[] = [];

  /** @param mayEnd  whether a version without rules replaces one with rules */
  keep(message: RulesMessage, mayEnd: boolean): void {
    if (message.kind === 'rules_begin') this.#next = []; // the sender of an unfinished version has ended
    this.#next.push(message);
    if (message.kind !== 'rules_end') return;
    if (message.areLoaded || mayEnd || this.#complete.length === 0) this.#complete = this.#next;
    this.#next = [];
  }

  get messages(): readonly RulesMessage[] {
    return [...this.#complete, ...this.#next];
  }
}

type VersionMessage = Exclude<SpreadMessage, { readonly kind: 'operators_served' }>;

/** Keeps what deciders have been sent, for those that start later. */
export class KeptRules {
  readonly #versions = { rules: new KeptVersion(), candidate: new KeptVersion() };

  keep({ kind, message }: VersionMessage): void {
    this.#versions[kind].keep(message, kind === 'candidate'); // a control process starts without rules
  }

  *messages(): Generator<VersionMessage> {
    for (const kind of ['rules', 'candidate'] as const)
      for (const message of this.#versions[kind].messages) yield { kind, message };
  }
}

/** The rules of a decider, received from the control process. */
export type ReceivedRules = ReturnType<typeof receiveRules>;

/** @param split  for limits that sites share */
export function receiveRules(log: Logger, split?: SiteSplit) {
  const inForce = new RulesInForce(split);
  let candidate: PackedRules | undefined;
  const onCandidate: (() => void)[] = [];
  let last: Promise<void> = Promise.resolve();
  const arrived = new Later<void>();
  const put = async (packed: PackedRules | undefined): Promise<void> => {
    if (packed && !inForce.has(packed)) {
      const { rules } = inForce.tree ? await inForce.replace(packed) : inForce.replaceAtOnce(packed); // no requests yet
      log.debug(`received ${counted(rules.length, 'rule')} from the control process`);
    }
    arrived.resolve();
  };
  const book: RuleBook = {
    rules: () => inForce.tree,
    packed: () => inForce.packed,
    onChange: (listener) => inForce.onChange(listener),
    close: () => {},
  };
  const candidateSource: PackedSource = {
    packed: () => candidate,
    onChange: (listener) => void onCandidate.push(listener),
  };
  const receivers = {
    rules: receiver((packed) => {
      last = last.then(() => put(packed));
    }),
    candidate: receiver((packed) => {
      candidate = packed;
      for (const listener of onCandidate) listener();
    }),
  };
  return {
    book,
    /** Resolves when the first rules have been received: a decider must not listen without the current rules. */
    arrived,
    /** The candidate: rules that are evaluated in addition to the current ones. */
    candidate: candidateSource,
    receive: ({ kind, message }: VersionMessage): void => receivers[kind](message),
  };
}

/** Joins the parts of rules. @param onEnd  called with all of them at the end, or with undefined if none are loaded */
function receiver(onEnd: (packed: PackedRules | undefined) => void): (message: RulesMessage) => void {
  let parts: PackedDomain[] = [];
  return (message) => {
    switch (message.kind) {
      case 'rules_begin':
        parts = [];
        return;
      case 'rules_part':
        parts.push(message.part);
        return;
      case 'rules_end': {
        const packed = message.areLoaded ? joined(parts) : undefined;
        parts = [];
        return onEnd(packed);
      }
    }
  };
}

function joined(parts: readonly PackedDomain[]): PackedRules {
  const domains = new Map<string, Omit<PackedDomain, 'name' | 'pieces'> & { readonly pieces: string[] }>();
  for (const { name, spend, hash, pieces } of parts) {
    const domain = domains.get(name) ?? { spend, hash, pieces: [] };
    domains.set(name, domain);
    domain.pieces.push(...pieces);
  }
  return Array.from(domains, ([name, domain]) => ({ name, ...domain }));
}
