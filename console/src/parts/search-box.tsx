import { useEffect, useRef, useState } from 'preact/hooks';
import { InvalidDescriptor, parseDescriptor } from '../../../src/edge/listing/descriptor-text.ts';
import { rules } from '../live.ts';
import { linkTo, type Pair, param, route } from '../route.ts';
import { linkToClient } from './client-link.tsx';

/** Finds clients, rules, refused requests and counters. `/` focuses it. */
export function SearchBox() {
  const asked = route.value.view === 'search' ? (param('q') ?? '') : '';
  const [typed, setTyped] = useState(asked);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => setTyped(asked), [asked]);
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (event.key !== '/' || (event.target as Element).matches('input, textarea, select')) return; // an element
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener('keydown', focus);
    return () => removeEventListener('keydown', focus);
  }, []);
  return (
    <form
      class="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim() !== '') location.hash = linkTo('search', { q: typed.trim() });
      }}
    >
      <input
        ref={field}
        type="search"
        aria-label="Find a client, rule, request or counter"
        placeholder="Client, rule, request id or counter"
        dir="auto"
        value={typed}
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
      />
    </form>
  );
}

/** Finds the page that the typed text names. Undefined if it names none, or while the rules are unknown. */
export function namedPage(typed: string): string | undefined {
  const found = counterIn(typed) ?? clientIn(typed);
  if (found) return linkToClient(found.domain, found.entries);
  const isRule = rules.value?.rules.some(({ path }) => path === typed);
  return isRule ? linkTo('rule', { path: typed }) : undefined;
}

interface Found {
  readonly domain: string;
  readonly entries: readonly Pair[];
}

/** Reads a client such as `user=alice` or `demo user=alice`. Undefined if the text is none, or several domains have it. */
function clientIn(typed: string): Found | undefined {
  const all = domainNames();
  const named = all.find((domain) => typed.startsWith(`${domain} `));
  const entries = entriesIn(named === undefined ? typed : typed.slice(named.length + 1));
  const having = named === undefined ? domainsWith(entries?.[0]?.key ?? '') : [named];
  const domain = having.length === 1 ? having[0] : all.length === 1 ? all[0] : undefined;
  return domain === undefined || !entries ? undefined : { domain, entries };
}

/** Reads the entries of a descriptor, or returns undefined if the text is none. */
export function entriesIn(text: string): readonly Pair[] | undefined {
  try {
    return parseDescriptor(text);
  } catch (error) {
    if (error instanceof InvalidDescriptor) return undefined;
    throw error;
  }
}

const domainNames = (): readonly string[] => rules.value?.domains.map(({ name }) => name) ?? [];

/** The domains with rules for a first entry of this key. */
const domainsWith = (key: string): readonly string[] => [
  ...new Set(
    rules.value?.rules
      .filter(({ levels }) => levels[0] === key || levels[0]?.startsWith(`${key}_`))
      .map(({ domain }) => domain),
  ),
];

/** The client of a counter's name, such as `fixed_window|60000|4:demo|4:user|5:alice`. */
function counterIn(typed: string): Found | undefined {
  for (let start = typed.search(/\|\d+:/); start >= 0 && start < typed.length; start = nextPart(typed, start)) {
    const [domain, ...texts] = lengthPrefixed(typed.slice(start)) ?? [];
    if (domain === undefined || texts.length === 0 || texts.length % 2 === 1) continue;
    const entries = Array.from({ length: texts.length / 2 }, (_, at) => ({
      key: texts[2 * at] ?? '',
      value: texts[2 * at + 1] ?? '',
    }));
    return { domain, entries };
  }
  return undefined;
}

function nextPart(text: string, start: number): number {
  const next = text.slice(start + 1).search(/\|\d+:/);
  return next < 0 ? -1 : start + 1 + next;
}

/** Reads the texts of `|4:demo|4:user`, or returns undefined if the form differs. */
function lengthPrefixed(text: string): readonly string[] | undefined {
  const texts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const [head = '', length] = /^\|(\d+):/.exec(text.slice(at)) ?? [];
    const end = at + head.length + Number(length);
    if (head === '' || end > text.length) return undefined;
    texts.push(text.slice(at + head.length, end));
    at = end;
  }
  return texts;
}
