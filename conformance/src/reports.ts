import { type Profile, profiles } from './case.ts';
import type { Result } from './run.ts';

const isPassed = ({ outcome }: Result): boolean => outcome === 'passed';

/** Passed and all cases of each profile that was played. */
export function countByProfile(
  results: readonly Result[],
): readonly (readonly [Profile, passed: number, all: number])[] {
  return (Object.keys(profiles) as Profile[]).flatMap((profile) => {
    const own = results.filter(({ of }) => of.profile === profile);
    return own.length === 0 ? [] : [[profile, own.filter(isPassed).length, own.length] as const];
  });
}

/** A table for people: every failure with its reason and its source, then a line for each profile. */
export function asText(results: readonly Result[]): string {
  const failures = results
    .filter((result) => !isPassed(result))
    .map(({ of: { id, title, why, source }, differences }) =>
      [`FAILED ${id}: ${title}`, `  ${why}`, `  ${source}`, ...differences.map((one) => `  ${one}`), ''].join('\n'),
    );
  const counts = countByProfile(results).map(
    ([profile, passed, all]) => `${passed === all ? 'ok    ' : 'FAILED'} ${profile.padEnd(12)} ${passed} of ${all}`,
  );
  const passed = results.filter(isPassed).length;
  return [...failures, ...counts, `${passed} of ${results.length} cases passed`, ''].join('\n');
}

/** @see https://testanything.org/tap-version-14-specification.html */
export function asTap(results: readonly Result[]): string {
  const lines = results.flatMap((result, at) => [
    `${isPassed(result) ? 'ok' : 'not ok'} ${at + 1} - ${result.of.id} ${result.of.title.replaceAll('#', '\\#')}`,
    ...result.differences.map((one) => `  # ${one}`),
  ]);
  return ['TAP version 14', `1..${results.length}`, ...lines, ''].join('\n');
}

const escaped = (text: string): string =>
  text.replace(/[<>&"]/g, (one) => `&#${one.charCodeAt(0)};`).replace(/[^\t\n\r\x20-\ufffd]/g, '?');

/** The format of JUnit, which most CI systems show. */
export function asJunit(results: readonly Result[]): string {
  const suites = countByProfile(results).map(([profile, passed, all]) => {
    const cases = results
      .filter(({ of }) => of.profile === profile)
      .map((result) => {
        const { of: one, differences, ms } = result;
        const head = `    <testcase classname="${profile}" name="${escaped(`${one.id} ${one.title}`)}" time="${ms / 1_000}"`;
        if (isPassed(result)) return `${head}/>`;
        const text = escaped([one.why, one.source, ...differences].join('\n'));
        return `${head}><failure message="${escaped(differences[0] ?? '')}">${text}</failure></testcase>`;
      });
    const head = `  <testsuite name="${profile}" tests="${all}" failures="${all - passed}">`;
    return [head, ...cases, '  </testsuite>'].join('\n');
  });
  return ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites>', ...suites, '</testsuites>', ''].join('\n');
}

const CHARACTER_WIDTH = 7;

/** A picture for a README. */
export function asBadge(results: readonly Result[]): string {
  const passed = results.filter(isPassed).length;
  const [label, value] = ['rls conformance', `${passed} of ${results.length}`];
  const [left, right] = [label, value].map((text) => text.length * CHARACTER_WIDTH + 10) as [number, number];
  const colour = passed === results.length ? '#2e7d32' : passed >= 0.9 * results.length ? '#b26a00' : '#c62828';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" role="img" aria-label="${label}: ${value}">
<rect width="${left}" height="20" fill="#444"/><rect x="${left}" width="${right}" height="20" fill="${colour}"/>
<g fill="#fff" font-family="monospace" font-size="11" text-anchor="middle">
<text x="${left / 2}" y="14">${label}</text><text x="${left + right / 2}" y="14">${value}</text>
</g></svg>
`;
}
