import { type Entry, type Match, match, matchAll } from '../../../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../../../src/engine/rules/match/tree.ts';
import { fakeClock } from '../../../helpers/clock.ts';
import { fixedWindowOf, ruleLimitOf } from '../../../helpers/limits.ts';
import { rulesFrom } from '../../../helpers/rules.ts';

const domains = {
  d: rulesFrom(`
domain: d
descriptors:
  - {key: k1, value: v1, descriptors: [
      {key: s, rate_limit: {unit: second, requests_per_unit: 5}},
      {key: s, value: x, rate_limit: {unit: second, requests_per_unit: 10}}]}
  - {key: k2, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: k2, value: v2, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: k2, value: free}
  - {key: k4, rate_limit: {name: k4_limit, unit: day, requests_per_unit: 1}}
  - {key: k5, value: v5, rate_limit: {unit: day, requests_per_unit: 15}, descriptors: [
      {key: s5, value: y, rate_limit: {unit: day, requests_per_unit: 25}}]}
  - {key: k6, rate_limit: {unlimited: true}}
  - {key: null_limit, rate_limit: ~}
  - {key: branch, value: a}
  - {key: branch, descriptors: [{key: leaf, rate_limit: {unit: minute, requests_per_unit: 3}}]}
`),
  w: rulesFrom(`
domain: w
descriptors:
  - {key: p, value: "foo*", rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: p, value: "foobar*", rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: p, value: food, rate_limit: {unit: minute, requests_per_unit: 7}}
  - {key: p, rate_limit: {unit: minute, requests_per_unit: 9}}
  - {key: m, value: "bar*b", rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: mm, value: "foo*bar*baz", rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: n, value: v, descriptors: [{key: p, value: "goo*", rate_limit: {unit: minute, requests_per_unit: 20}}]}
  - {key: any, value: "*", rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: any, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: dead, value: "end*"}
  - {key: dead, descriptors: [{key: s, rate_limit: {unit: minute, requests_per_unit: 6}}]}
`),
  s: rulesFrom(`
domain: s
descriptors:
  - {key: files, value: "files/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: own, value: "own/*", rate_limit: {unit: hour, requests_per_unit: 11}}
  - {key: svc, value: "svc/*", share_threshold: true, descriptors: [
      {key: ep, rate_limit: {unit: minute, requests_per_unit: 80}}]}
  - {key: "a*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 12}}
  - {key: "b*", value: "x*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 13}}
`),
  k: rulesFrom(`
domain: k
descriptors:
  - {key: "us*", rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: user, value: alice, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: "*", value: root, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: admin, value: "r*", rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: "adm*", value: "*t", rate_limit: {unit: minute, requests_per_unit: 6}}
`),
  r: rulesFrom(`
domain: r
descriptors:
  - {key: a, rate_limit: {name: base, unit: minute, requests_per_unit: 1}}
  - {key: b, rate_limit: {replaces: [{name: base}], unit: minute, requests_per_unit: 2}}
  - {key: u, rate_limit: {unlimited: true, name: free, replaces: [{name: base}]}}
  - {key: x, rate_limit: {name: nx, replaces: [{name: ny}], unit: minute, requests_per_unit: 3}}
  - {key: y, rate_limit: {name: ny, replaces: [{name: nx}], unit: minute, requests_per_unit: 4}}
  - {key: z, rate_limit: {name: nz, replaces: [{name: nx}, {name: free}, {name: nobody}], unit: minute, requests_per_unit: 5}}
`),
} satisfies Record<string, RuleTree>;

type Domain = keyof typeof domains;

/** `user=alice,path=/login`: two entries. The empty text: none. */
const entriesOf = (written: string): readonly Entry[] =>
  written === ''
    ? []
    : written.split(',').map((entry) => {
        const [key = '', value = ''] = entry.split('=');
        return { key, value };
      });

const show = (entries: readonly Entry[]): string => entries.map(({ key, value }) => `${key}=${value}`).join(',');

/** `20 MINUTE d.k2`, `unlimited d.k6`, `no rule`, `no domain`. */
function told(found: Match): string {
  if (found.kind === 'no_domain') return 'no domain';
  if (found.kind === 'no_rule') return 'no rule';
  if (found.kind === 'invalid_request_limit') return found.problem;
  if (found.kind === 'unlimited') return `unlimited ${found.rule.path}`;
  return `${found.limits.map(({ limit, label }) => `${limit.requestsPerUnit} ${label.unit}`).join(' and ')} ${found.rule.path}`;
}

const find = (domain: Domain, written: string): Match =>
  match(domains[domain], domain, { entries: entriesOf(written), requestLimit: undefined });

describe('a descriptor', () => {
  test.each<[Domain, string, string]>([
    ['d', '', 'no rule'],
    ['d', 'k1=zzz', 'no rule'],
    ['d', 'k1=v1', 'no rule'], // no rule at this depth
    ['d', 'k1=v1,s=q', '5 SECOND d.k1_v1.s'],
    ['d', 'k1=v1,s=x', '10 SECOND d.k1_v1.s_x'],
    ['d', 'k1=v1,s=x,t=1', 'no rule'],
    ['d', 'k2=other', '20 MINUTE d.k2'],
    ['d', 'k2=', '20 MINUTE d.k2'],
    ['d', 'k2=v2', '30 MINUTE d.k2_v2'],
    ['d', 'k2=free', 'no rule'], // a node without a limit
    ['d', 'k2=v2,s=q', 'no rule'], // deeper than the rule
    ['d', 'null_limit=1', 'no rule'],
    ['d', 'k5=v5', '15 DAY d.k5_v5'], // a rule on an inner node
    ['d', 'k5=v5,s5=zz', 'no rule'], // the rule on the path does not apply
    ['d', 'k5=v5,s5=y', '25 DAY d.k5_v5.s5_y'],
    ['d', 'branch=a,leaf=1', 'no rule'], // the exact node leads nowhere, and the choice is final
    ['d', 'branch=b,leaf=1', '3 MINUTE d.branch.leaf'],
    ['d', 's=x,k1=v1', 'no rule'],
    ['d', 'K2=v2', 'no rule'],
    ['d', 'k2=V2', '20 MINUTE d.k2'],
    ['d', 'k6=z', 'unlimited d.k6'],
    ['d', '=', 'no rule'],
    ['d', 'constructor=x', 'no rule'],
    ['d', '__proto__=__proto__', 'no rule'],
    ['d', 'k2=__proto__', '20 MINUTE d.k2'],
    ['d', 'k2=constructor,hasOwnProperty=x', 'no rule'],
    // Key and value are compared separately, not joined by `_` as in envoyproxy/ratelimit.
    ['d', 'k2_v2=zz', 'no rule'],
    ['d', 'k2_v2=', 'no rule'],
    ['d', 'k1_v1=,s=q', 'no rule'],

    ['w', 'p=foo1', '20 MINUTE w.p_foo*'],
    ['w', 'p=foo', '20 MINUTE w.p_foo*'], // `*` also matches the empty text
    ['w', 'p=food', '7 MINUTE w.p_food'], // exact before wildcard
    ['w', 'p=foobarX', '20 MINUTE w.p_foo*'], // the first one in the file, not the longest
    ['w', 'p=zzz', '9 MINUTE w.p'], // the key alone comes last
    ['w', 'p=', '9 MINUTE w.p'],
    ['w', 'p=foo*', '20 MINUTE w.p_foo*'],
    ['w', 'p=foobar*', '1 MINUTE w.p_foobar*'], // literally the node's own value
    ['w', 'm=barb', '20 MINUTE w.m_bar*b'],
    ['w', 'm=bar1b', '20 MINUTE w.m_bar*b'],
    ['w', 'm=bara', 'no rule'],
    ['w', 'm=xbarb', 'no rule'],
    ['w', 'm=bar', 'no rule'], // the `b` cannot match at both ends
    ['w', 'mm=foo1bar2baz', '10 MINUTE w.mm_foo*bar*baz'],
    ['w', 'mm=foobarbaz', '10 MINUTE w.mm_foo*bar*baz'],
    ['w', 'mm=foo1baz', 'no rule'],
    ['w', 'mm=barbaz', 'no rule'],
    ['w', 'n=v,p=goo2', '20 MINUTE w.n_v.p_goo*'],
    ['w', 'n=v,p=foo2', 'no rule'],
    ['w', 'any=', '4 MINUTE w.any_*'], // `*` also matches the empty text
    ['w', 'any=x', '4 MINUTE w.any_*'],
    ['w', 'dead=end1,s=1', 'no rule'], // the choice of a wildcard is final, too
    ['w', 'dead=x,s=1', '6 MINUTE w.dead.s'],
    ['w', 'mfoo=1', 'no rule'],

    ['k', 'user=alice', '2 MINUTE k.user_alice'],
    ['k', 'user=bob', '1 MINUTE k.us*'], // a wildcard in a key comes before the key alone, too
    ['k', 'us=', '1 MINUTE k.us*'],
    ['k', 'usage=7', '1 MINUTE k.us*'],
    ['k', 'us*=x', '1 MINUTE k.us*'],
    ['k', 'user=root', '1 MINUTE k.us*'], // the first one in the file
    ['k', 'group=root', '4 MINUTE k.*_root'],
    ['k', '=root', '4 MINUTE k.*_root'],
    ['k', 'admin=root', '4 MINUTE k.*_root'],
    ['k', 'admin=rest', '5 MINUTE k.admin_r*'],
    ['k', 'admin=test', '6 MINUTE k.adm*_*t'],
    ['k', 'adm=root', '4 MINUTE k.*_root'],
    ['k', 'adm=test', '6 MINUTE k.adm*_*t'],
    ['k', 'adm=x', 'no rule'],
    ['k', 'group=x', 'no rule'],
    ['k', 'aus=x', 'no rule'],
  ])('in %s: %j: %s', (domain, written, expected) => {
    expect(told(find(domain, written))).toBe(expected);
  });

  test('in a domain without rules has no match', () => {
    const descriptor = { entries: entriesOf('k2=v2'), requestLimit: undefined };
    expect(
      ['nope', '', 'D', 'constructor', '__proto__'].map((name) => told(match(domains.d, name, descriptor))),
    ).toEqual(Array(5).fill('no domain'));
  });

  test('may have a reserved word as key or value', () => {
    const rules = rulesFrom(`
domain: constructor
descriptors:
  - {key: __proto__, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: user, value: constructor, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: "toS*", rate_limit: {unit: day, requests_per_unit: 3}}
`);
    const all = ['__proto__=x', 'user=constructor', 'user=__proto__', 'toString=x', 'constructor=x'];
    expect(
      all.map((written) => told(match(rules, 'constructor', { entries: entriesOf(written), requestLimit: undefined }))),
    ).toEqual([
      '1 DAY constructor.__proto__',
      '2 DAY constructor.user_constructor',
      'no rule',
      '3 DAY constructor.toS*',
      'no rule',
    ]);
  });

  test('without entries matches nothing, not even any key', () => {
    const rules = rulesFrom('domain: d\ndescriptors: [{key: "*", rate_limit: {unit: day}}]');
    expect(told(match(rules, 'd', { entries: [], requestLimit: undefined }))).toBe('no rule');
  });
});

describe('the entries that name the counter', () => {
  test.each<[Domain, string, string]>([
    ['d', 'k1=v1,s=q', 'k1=v1,s=q'],
    ['d', 'k2=', 'k2='],
    ['w', 'p=foo1', 'p=foo1'], // each value has its own counter, although one rule limits them
    ['s', 'own=own/1', 'own=own/1'],
    ['s', 'files=files/a', 'files=files/*'],
    ['s', 'files=files/b', 'files=files/*'],
    ['s', 'files=files/*', 'files=files/*'], // literally the pattern: the same counter
    ['s', 'svc=svc/u,ep=get', 'svc=svc/*,ep=get'],
    ['s', 'ab=c', 'ab=a*'],
    ['s', 'ad=e', 'ad=a*'],
    ['s', 'b1=x1', 'b1=b*_x*'],
  ])('in %s, of %s: %s', (domain, written, expected) => {
    const found = find(domain, written);
    expect(found.kind === 'limited' && show(found.entries)).toBe(expected);
  });

  test("are a new list: the caller's list is not modified", () => {
    const entries = entriesOf('svc=svc/u,ep=get');
    match(domains.s, 's', { entries, requestLimit: undefined });
    expect(show(entries)).toBe('svc=svc/u,ep=get');
  });

  test('differ between rules that share their thresholds', () => {
    const rules = rulesFrom(`
domain: d
descriptors:
  - {key: "*", value: "x*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: "*", value: "y*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: "a*", value: "*a*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
`);
    const counters = ['k=x1', 'k=y1', 'ab=cat'].map((written) => {
      const found = match(rules, 'd', { entries: entriesOf(written), requestLimit: undefined });
      return found.kind === 'limited' && show(found.entries);
    });
    expect(counters).toEqual(['k=*_x*', 'k=*_y*', 'ab=a*_*a*']);
  });
});

describe('a request limit', () => {
  const limit = ruleLimitOf(fixedWindowOf(10, 86_400_000), { unit: 'DAY', unitMultiplier: 1 });

  test.each([
    ['d', 'k1=v1,s=q', '10 DAY d.k1_v1.s_q'],
    ['d', 'unknown=1', '10 DAY d.unknown_1'],
    ['d', 'k2=', '10 DAY d.k2'],
    ['d', 'k2=free', '10 DAY d.k2_free'],
    ['d', 'k6=z', '10 DAY d.k6_z'], // not unlimited
    ['d', '', '10 DAY d.'],
    ['nope', 'k2=v2', 'no domain'],
  ])('in %s, for %j: %s', (domain, written, expected) => {
    const found = match(domains.d, domain, { entries: entriesOf(written), requestLimit: { limit } });
    expect(told(found)).toBe(expected);
  });

  test('has no mode, is never replaced and counts by the entries as sent', () => {
    const found = match(domains.s, 's', { entries: entriesOf('files=files/a'), requestLimit: { limit } });
    expect(found).toMatchObject({
      kind: 'limited',
      rule: { unlimited: false, shadow: false, quota: false, replaces: [] },
      limits: [limit],
      entries: [{ key: 'files', value: 'files/a' }],
    });
  });
});

describe('limits that replace others of the same request', () => {
  test.each([
    ['a=1', '1 MINUTE r.a'],
    ['a=1 b=1', 'no rule; 2 MINUTE r.b'],
    ['b=1 a=1 a=2', '2 MINUTE r.b; no rule; no rule'],
    ['a=1 u=1', 'no rule; unlimited r.u'], // an unlimited rule replaces as well
    ['x=1 y=1', 'no rule; no rule'], // each other
    ['x=1 y=1 z=1', 'no rule; no rule; 5 MINUTE r.z'],
    ['u=1 z=1', 'unlimited r.u; 5 MINUTE r.z'], // an unlimited rule cannot be replaced
    ['x=1 z=1 a=1', 'no rule; 5 MINUTE r.z; 1 MINUTE r.a'],
    ['b=1 q=1 a=1', '2 MINUTE r.b; no rule; no rule'],
  ])('%s: %s', (written, expected) => {
    const descriptors = written.split(' ').map((one) => ({ entries: entriesOf(one), requestLimit: undefined }));
    expect(matchAll(domains.r, 'r', descriptors, { clock: fakeClock() }).map(told).join('; ')).toBe(expected);
  });

  test('do not replace limits without a name', () => {
    const limit = ruleLimitOf(fixedWindowOf(10));
    const descriptors = [
      { entries: entriesOf('a=1'), requestLimit: { limit } },
      { entries: entriesOf('b=1'), requestLimit: undefined },
    ];
    const matches = matchAll(domains.r, 'r', descriptors, { clock: fakeClock() });
    expect(matches.map(told)).toEqual(['10 SECOND r.a_1', '2 MINUTE r.b']);
  });
});
