import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { callerCases } from './caller-cases.ts';
import type { Case, Profile, Request, Step, Unit } from './case.ts';
import { catalogue } from './catalogue.ts';

const CORPUS = fileURLToPath(new URL('../corpus', import.meta.url));

/** A case as it was recorded of envoyproxy/ratelimit; README.md describes its steps. */
interface Recorded {
  readonly name: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly unit?: Unit;
  readonly steps: readonly Step[];
}

/** The steps that each profile plays; others look at what only one server has, such as its keys in Redis. */
const playedSteps: Readonly<Record<string, readonly string[]>> = {
  json: ['rls', 'json'],
  statistics: ['rls', 'stats'],
  reload: ['rls', 'reload'],
};

/** All cases, in the order of the profiles. */
export function loadCases(): readonly Case[] {
  const recorded = readdirSync(CORPUS)
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => {
      const { configs = {}, cases } = JSON.parse(readFileSync(`${CORPUS}/${name}`, 'utf8')) as {
        configs?: Readonly<Record<string, string>>;
        cases: readonly Recorded[];
      };
      return cases.map((one) => ({ ...one, files: filled(one.files ?? {}, configs), configs }));
    });
  const ofCorpus = catalogue.map(({ recorded: start, profile, why, source }): Case => {
    const found = recorded.find(({ name }) => name.startsWith(start));
    if (!found) throw new Error(`the corpus has no case '${start}'`);
    const { name, files, unit = 'MINUTE', configs } = found;
    const kinds = playedSteps[profile] ?? ['rls', 'health'];
    const steps = found.steps
      .filter((step) => kinds.includes(step.do))
      .map((step) => (step.write ? { ...step, write: filled(step.write, configs) } : step));
    const [number = '', ...title] = name.split(' ');
    return { id: `${profile}/${number}`, profile, title: title.join(' '), why, source, files, unit, steps };
  });
  return [...ofCorpus, ...callerCases];
}

/** Metadata of rules, which no profile asks for and not every version of envoyproxy/ratelimit accepts. */
const METADATA = /,\s*metadata: \{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}/g;

const filled = (files: Readonly<Record<string, string>>, configs: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(files).map(([name, text]) => {
      const whole = text.startsWith('@') ? (configs[text.slice(1)] ?? '') : text;
      return [name, whole.replace(METADATA, '')];
    }),
  );

/** `domain: x` at the top of a rule file. */
const DOMAIN = /^domain:[ \t]*(["']?)([^\s"'#]+)\1[ \t]*$/gm;
const PREFIX = 'ratelimit.service.rate_limit.';

/**
 * The case with domains and files of its own, so that cases neither share counters with one another nor with an earlier
 * run.
 */
export function isolated(one: Case, suffix: string): Case {
  const names = new Set<string>();
  const texts = [...Object.values(one.files), ...one.steps.flatMap(({ write = {} }) => Object.values(write))];
  for (const text of texts) for (const [, , name = ''] of text.matchAll(DOMAIN)) names.add(name);
  for (const { request } of one.steps) if (request?.domain) names.add(request.domain);
  const rename = (name: string): string => (names.has(name) ? `${name}-${suffix}` : name);
  const inFiles = (files: Readonly<Record<string, string>>): Case['files'] =>
    Object.fromEntries(
      Object.entries(files).map(([name, text]) => [
        `${suffix}-${name}`,
        text.replace(DOMAIN, (_, quote: string, domain: string) => `domain: ${quote}${rename(domain)}${quote}`),
      ]),
    );
  return {
    ...one,
    files: inFiles(one.files),
    steps: one.steps.map((step) => ({
      ...step,
      ...(step.request && { request: withDomain(step.request, rename) }),
      ...(step.body !== undefined && { body: inBody(step.body, rename) }),
      ...(step.write && { write: inFiles(step.write) }),
      ...(step.delete && { delete: step.delete.map((name) => `${suffix}-${name}`) }),
      ...(step.do === 'stats' && step.expect && { expect: inNames(step.expect, rename) }),
    })),
  };
}

const withDomain = (request: Request, rename: (name: string) => string): Request => ({
  ...request,
  ...(request.domain && { domain: rename(request.domain) }),
});

/** A body is a request, or a text that may be one. */
function inBody(body: unknown, rename: (name: string) => string): unknown {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return text.replace(/("domain"\s*:\s*")([^"]+)"/, (_, start: string, name: string) => `${start}${rename(name)}"`);
}

const inNames = (counts: Readonly<Record<string, unknown>>, rename: (name: string) => string) =>
  Object.fromEntries(
    Object.entries(counts).map(([name, count]) => {
      const [domain = '', ...rest] = name.slice(PREFIX.length).split('.');
      return [`${PREFIX}${[rename(domain), ...rest].join('.')}`, count];
    }),
  );

/** The profiles that a server can be asked about without being told that it has them. */
export const defaultProfiles: readonly Profile[] = ['protocol', 'semantics', 'reload', 'envoy'];
