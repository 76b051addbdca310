#!/usr/bin/env node
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Case, type Profile, profiles } from './case.ts';
import { defaultProfiles, loadCases } from './cases.ts';
import { judgeCommand } from './judge/command.ts';
import { asBadge, asJunit, asTap, asText } from './reports.ts';
import { type Result, runCases } from './run.ts';
import { Target } from './target.ts';

const usage = `Usage: rls-conformance --target HOST:PORT --rules-dir DIR [options]
       rls-conformance judge --help

Tests a service that implements Envoy's Rate Limit Service v3. Writes rule files into the folder from which the service
reads its rules, waits until they are in force, calls it, and compares the answers. Exits with 1 if a case fails.

  --target HOST:PORT   gRPC, without TLS
  --rules-dir DIR      the folder of the service's rule files
  --http HOST:PORT     its HTTP port; adds the profile json
  --statsd PORT        the UDP port on this machine to which it sends StatsD; adds the profile statistics
  --profile NAME,...   instead: exactly these profiles
  --only TEXT          only cases whose id or title contains this
  --reload-timeout S   how long it may take to read changed files; default: 10
  --tap                prints TAP instead of a table
  --junit FILE         also writes JUnit
  --badge FILE         also writes a picture (SVG)
  --json FILE          also writes the results as JSON
  --list               prints the cases, why they matter, and their sources
  --help               prints this text

Profiles:
${Object.entries(profiles)
  .map(([name, about]) => `  ${name.padEnd(13)} ${about}`)
  .join('\n')}
`;

main().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 2;
});

async function main(): Promise<void> {
  const [command, ...rest] = process.argv.slice(2);
  if (command === 'judge') {
    process.exitCode = await judgeCommand(rest);
    return;
  }
  const { values } = parseArgs({
    options: {
      target: { type: 'string' },
      'rules-dir': { type: 'string' },
      http: { type: 'string' },
      statsd: { type: 'string' },
      profile: { type: 'string' },
      only: { type: 'string', default: '' },
      'reload-timeout': { type: 'string', default: '10' },
      tap: { type: 'boolean', default: false },
      junit: { type: 'string' },
      badge: { type: 'string' },
      json: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return void process.stdout.write(usage);
  const chosen = choose(values);
  if (values.list) return void process.stdout.write(list(chosen));
  const { target: address, 'rules-dir': rulesDir, http, statsd } = values;
  if (!address || !rulesDir) throw new Error('--target HOST:PORT and --rules-dir DIR are required; see --help');
  const target = new Target({ target: address, http, statsd: statsd === undefined ? undefined : Number(statsd) });
  try {
    await target.listen();
    const reloadMs = Number(values['reload-timeout']) * 1_000;
    const results = await runCases(chosen, target, { rulesDir, reloadMs });
    process.stdout.write(values.tap ? asTap(results) : asText(results));
    if (values.junit) writeFileSync(values.junit, asJunit(results));
    if (values.badge) writeFileSync(values.badge, asBadge(results));
    if (values.json) writeFileSync(values.json, `${JSON.stringify(results.map(shortened), null, 2)}\n`);
    process.exitCode = results.every(({ outcome }) => outcome === 'passed') ? 0 : 1;
  } finally {
    target.close();
  }
}

function shortened({ of: { id, profile }, outcome, differences }: Result): object {
  return { id, profile, outcome, differences };
}

interface Choice {
  readonly profile?: string | undefined;
  readonly http?: string | undefined;
  readonly statsd?: string | undefined;
  readonly only: string;
  readonly list: boolean;
}

function choose({ profile, http, statsd, only, list: isListed }: Choice): readonly Case[] {
  const named = profile?.split(',') ?? [
    ...defaultProfiles,
    ...(http === undefined ? [] : ['json']),
    ...(statsd === undefined ? [] : ['statistics']),
  ];
  const unknown = named.find((name) => !Object.hasOwn(profiles, name));
  if (unknown !== undefined)
    throw new Error(`--profile must be of ${Object.keys(profiles).join(', ')}, got '${unknown}'`);
  const isAll = isListed && profile === undefined;
  const cases = loadCases().filter(({ id, title, profile: own }) => {
    return (isAll || (named as readonly Profile[]).includes(own)) && `${id} ${title}`.includes(only);
  });
  if (cases.length === 0) throw new Error(`no case contains '${only}'`);
  return cases;
}

function list(cases: readonly Case[]): string {
  return cases.map(({ id, title, why, source }) => `${id}: ${title}\n  ${why}\n  ${source}\n`).join('');
}
