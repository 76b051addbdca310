import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Link, namespaceProblem, openLink } from '../../helpers/namespaces.ts';
import type { Running } from '../../helpers/process.ts';
import { nftables } from '../../helpers/tools.ts';
import { until } from '../../helpers/until.ts';
import { isOpen, MAIN } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 1 } # whose windows do not end during the test
`;
const OFFENDER = '203.0.113.7';
const NEIGHBOUR = '203.0.113.8';
const ALLOWED = '203.0.113.9';
const ABSENT = '203.0.113.99';
const PRIVATE = '10.1.2.3';
const OFFENDER_6 = '2001:db8::7';
/** Refusals for which an address is listed: ten times the limit. */
const REQUESTS = 12;
const PORT = '8080';
const TOKEN = 'token';
const WAIT_MS = 30_000;

/** Sends requests from an address, one connection each, about another one, and prints the statuses; `lost`: no answer. */
const CALLER = `
const [from, about, count] = process.argv.slice(1);
const { request } = require('node:http');
const host = from.includes(':') ? '2001:db8::1' : '203.0.113.1';
const body = JSON.stringify({ domain: 'edge', descriptors: [{ entries: [{ key: 'remote_address', value: about }] }] });
(async () => {
  for (let left = Number(count); left > 0; left--)
    await new Promise((resolve) => {
      const sent = request({ host, port: ${PORT}, path: '/json', method: 'POST', localAddress: from, agent: false, timeout: 2_000 });
      sent.on('response', (response) => response.resume().on('end', () => resolve(console.log(response.statusCode))));
      sent.on('timeout', () => sent.destroy());
      sent.on('error', () => resolve(console.log('lost')));
      sent.end(body);
    });
})();
`;

/** Sends a datagram from an address to the port of the proxy, and prints whether the echo arrives. */
const DATAGRAM = `
const socket = require('node:dgram').createSocket('udp4');
const end = (outcome) => { console.log(outcome); process.exit(); };
socket.on('message', () => end('answered'));
socket.bind(0, process.argv[1], () => socket.send('hello', ${PORT}, '203.0.113.1'));
setTimeout(() => end('lost'), 1_000);
`;
const ECHO = `
const socket = require('node:dgram').createSocket('udp4');
socket.on('message', (text, { port, address }) => socket.send(text, port, address));
socket.bind(${PORT}, '203.0.113.1', () => console.log('open'));
`;

const title = namespaceProblem === undefined ? '' : ` (not tested: ${namespaceProblem})`;
(namespaceProblem === undefined ? describe : describe.skip)(`weir guard, in network namespaces${title},`, () => {
  let link: Link;
  let weir: Running;
  let guard: Running | undefined;
  beforeAll(async () => {
    await nftables();
    const folder = mkdtempSync(join(tmpdir(), 'guard-'));
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    const client = [OFFENDER, NEIGHBOUR, ALLOWED].map((one) => `${one}/24`);
    link = await openLink({ server: ['203.0.113.1/24', '2001:db8::1/64'], client: [...client, `${OFFENDER_6}/64`] });
    const env = { PATH: process.env.PATH, HOST: '::', USE_STATSD: 'false', ADMIN_TOKEN: TOKEN, PORT };
    weir = await link.server.start(process.execPath, [MAIN, 'serve', '--rules', join(folder, 'rules.yaml')], { env });
    await weir.waitFor(isOpen);
  });
  afterEach(() => guard?.stop());
  afterAll(async () => {
    await weir?.stop();
    await link?.stop();
  });

  const call = async (from: string, { about = from, count = 1 } = {}): Promise<readonly string[]> =>
    (await link.client.run(process.execPath, ['-e', CALLER, from, about, String(count)])).trim().split('\n');
  const startGuard = async (...flags: readonly string[]): Promise<Running> => {
    const own = ['guard', '--rule', 'edge.remote_address', '--port', PORT, '--token', TOKEN, ...flags];
    guard = await link.server.start(process.execPath, [MAIN, ...own]);
    await guard.waitFor('"event":"start"');
    return guard;
  };
  const isPrinted = (event: string, address: string) => (output: string) =>
    output.split('\n').some((line) => line.includes(`"event":"${event}","address":"${address}"`));
  const ruleset = (): Promise<string> => link.server.run('nft', ['list', 'ruleset']);

  test('only prints what it would do unless it is told to enforce it', async () => {
    const running = await startGuard();
    await call(OFFENDER, { count: REQUESTS });
    await running.waitFor(isPrinted('add', OFFENDER), WAIT_MS);
    expect(await ruleset()).toBe('');
    expect(await call(OFFENDER)).toEqual(['429']);
  });

  test('drops TCP and QUIC, and only packets that arrive on the interfaces that it is told', async () => {
    const sendDatagram = async (from: string) =>
      (await link.client.run(process.execPath, ['-e', DATAGRAM, from])).trim();
    const echo = await link.server.start(process.execPath, ['-e', ECHO]);
    try {
      await echo.waitFor('open');
      await call(OFFENDER, { count: REQUESTS });
      const elsewhere = await startGuard('--enforce', '--allow', 'none', '--interface', 'lo');
      await elsewhere.waitFor(isPrinted('add', OFFENDER), WAIT_MS);
      expect([await call(OFFENDER), await sendDatagram(OFFENDER)]).toEqual([['429'], 'answered']);
      await elsewhere.stop();
      const here = await startGuard('--enforce', '--allow', 'none', '--interface', 'lo', '--interface', 'veth0');
      await here.waitFor(isPrinted('add', OFFENDER), WAIT_MS);
      expect([await call(OFFENDER), await sendDatagram(OFFENDER)]).toEqual([['lost'], 'lost']);
      expect([await call(NEIGHBOUR), await sendDatagram(NEIGHBOUR)]).toEqual([[expect.any(String)], 'answered']);
    } finally {
      await echo.stop();
    }
  });

  test('drops the packets of offenders until they are exempted or it ends, and no others', async () => {
    await call(NEIGHBOUR, { count: 3 });
    await call(OFFENDER_6, { count: REQUESTS });
    for (const about of [OFFENDER, ALLOWED, PRIVATE, ABSENT])
      await call(about === ALLOWED ? ALLOWED : OFFENDER, { about, count: REQUESTS });
    const running = await startGuard('--enforce', '--allow', ALLOWED);
    for (const one of [OFFENDER, OFFENDER_6]) await running.waitFor(isPrinted('add', one), WAIT_MS);
    for (const one of [ALLOWED, PRIVATE, ABSENT]) await running.waitFor(isPrinted('skip', one), WAIT_MS);
    expect(running.output()).toMatch(/"address":"203\.0\.113\.99","reason":"it is not connected to this machine"/);
    expect([await call(OFFENDER), await call(OFFENDER_6)]).toEqual([['lost'], ['lost']]);
    expect([await call(NEIGHBOUR), await call(ALLOWED)]).toEqual([['429'], ['429']]);
    const rules = await ruleset();
    expect(rules).toMatch(/ip saddr @ipv4 counter packets [1-9]/);
    expect(rules).toMatch(/ip6 saddr @ipv6 counter packets [1-9]/);
    for (const one of [NEIGHBOUR, ALLOWED, PRIVATE, ABSENT]) expect(rules).not.toContain(one);

    const exempt = [
      'override',
      'set',
      'edge',
      `remote_address=${OFFENDER}`,
      'exempt',
      '--for',
      '1h',
      '--reason',
      'test',
    ];
    await link.server.run(process.execPath, [MAIN, ...exempt, '--token', TOKEN]);
    await running.waitFor(isPrinted('remove', OFFENDER), WAIT_MS);
    expect(await call(OFFENDER)).toEqual(['200']);
    expect(await ruleset()).toContain(OFFENDER_6);

    await running.stop();
    expect(running.output()).toMatch(/"event":"remove","address":"2001:db8::7","reason":"weir guard ends"/);
    expect(await ruleset()).toBe('');
    expect(await call(OFFENDER_6)).toEqual(['429']);
  });

  test('removes what a process that was killed has left', async () => {
    await call(OFFENDER_6, { count: REQUESTS });
    const killed = await startGuard('--enforce', '--allow', 'none');
    await killed.waitFor(isPrinted('add', OFFENDER_6), WAIT_MS);
    await killed.stop('SIGKILL');
    expect(await ruleset()).toContain(OFFENDER_6);
    await startGuard('--enforce', '--allow', 'none', '--times', '1000000');
    await until('the set is empty', async () => !(await ruleset()).includes(OFFENDER_6));
  });
});
